// PRIVATE to formats/ops: what an optimizer keeps of a parameter, apart from where it lies.
#pragma once

#include <optional>
#include <vector>

#include "formats/artifact/artifact.h"

namespace nxdkit::ops {

using OptimizerEntries = std::optional<std::vector<OptimizerEntry>>;  // nullopt: before a step

// As one file has them; logical parameters are not given yet. kUnsupported for a value that cannot
// be written again.
Result<OptimizerEntries> EntriesOf(const nxd::ParamState& state);

// kCorrupt unless another rank's entries are those of the first one: names, kinds and values.
Status RequireSame(const OptimizerEntries& first, const OptimizerEntries& here);

}  // namespace nxdkit::ops
