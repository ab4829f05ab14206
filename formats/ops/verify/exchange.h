// PRIVATE to formats/ops: whether two models differ by the exchange of rows of FSDP over tensor
// parallelism (formats/artifact/exchanged_rows.h).
#pragma once

#include <memory>
#include <optional>

#include "formats/artifact/bound.h"
#include "formats/artifact/exchanged_rows.h"

namespace nxdkit::ops {

// Both models must outlive it.
class ExchangeSearch {
 public:
  // nullptr if it is not known which tensors transformers cuts in rows, or if these are not plain
  // models.
  static Result<std::unique_ptr<ExchangeSearch>> Make(const BoundArtifact& right,
                                                      const BoundArtifact& actual);
  virtual ~ExchangeSearch() = default;

  // The exchange that leads from `right` to `actual`; nullopt if rows are in their places, or in
  // others. It must explain a matrix of the first layer's attention, one of its MLP and the
  // embedding: heads in another order, for example, do not move the others. Rows may differ a
  // little, as between two steps of a run: nine tenths of the difference must be explained. Reads
  // some rows of each, and of these the first columns.
  virtual Result<std::optional<RowExchange>> Find() = 0;
  // Whether it explains the difference of a parameter of `actual`.
  virtual Result<bool> Explains(const RowExchange& exchange, std::string_view param) = 0;
};

// ExchangeSearch::Find, with a search of its own.
Result<std::optional<RowExchange>> FindExchange(const BoundArtifact& right,
                                                const BoundArtifact& actual);

}  // namespace nxdkit::ops
