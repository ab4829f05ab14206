// PRIVATE to formats/ops: whether two models differ as FSDP over tensor parallelism exchanges rows
// (formats/artifact/exchanged_rows.h).
#pragma once

#include <optional>

#include "formats/artifact/bound.h"
#include "formats/artifact/exchanged_rows.h"

namespace nxdkit::ops {

// The exchange that leads from `right` to `actual`, looked for in the matrices of the first layer;
// nullopt where rows are in their places, or lie otherwise. Rows may differ a little, as between
// two steps of a run: the exchange must explain nine tenths of the difference, of every matrix.
// Reads the first columns of each row.
Result<std::optional<RowExchange>> FindExchange(const BoundArtifact& right,
                                                const BoundArtifact& actual);

}  // namespace nxdkit::ops
