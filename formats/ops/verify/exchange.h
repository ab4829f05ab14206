// PRIVATE to formats/ops: whether two models differ as FSDP over tensor parallelism exchanges rows
// (formats/artifact/exchanged_rows.h).
#pragma once

#include <memory>
#include <optional>

#include "formats/artifact/bound.h"
#include "formats/artifact/exchanged_rows.h"

namespace nxdkit::ops {

// Both models must outlive it.
class ExchangeSearch {
 public:
  // nullptr: nothing is known of what transformers cuts in rows, or these are no plain models.
  static Result<std::unique_ptr<ExchangeSearch>> Make(const BoundArtifact& right,
                                                      const BoundArtifact& actual);
  virtual ~ExchangeSearch() = default;

  // The exchange that leads from `right` to `actual`; nullopt where rows are in their places, or
  // lie otherwise. It must explain a matrix of the first layer's attention, one of its MLP and the
  // embedding: heads in another order, say, do not move the others. Rows may differ a little, as
  // between two steps of a run: nine tenths of the difference must be explained. Some rows of each
  // are read, and the first columns of these.
  virtual Result<std::optional<RowExchange>> Find() = 0;
  // Whether it explains how a parameter of `actual` differs.
  virtual Result<bool> Explains(const RowExchange& exchange, std::string_view param) = 0;
};

// Find of a search.
Result<std::optional<RowExchange>> FindExchange(const BoundArtifact& right,
                                                const BoundArtifact& actual);

}  // namespace nxdkit::ops
