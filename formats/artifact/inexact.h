// Counts the values that change from F64 to F32 though nobody asked for another dtype: in the state
// of an optimizer that has no F64 in the output.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/run.h"
#include "lib/plan/executor.h"

namespace nxdkit::artifact {

// Reads the tensors that are stored as F64 and become F32 again. One line with tensors and elements
// whose value changes; none if all are exact.
Result<std::vector<std::string>> InexactElements(const Plan& plan, const BoundLayout& source,
                                                 const Layout& layout,
                                                 const std::vector<OutputTensor>& outputs,
                                                 const RunOptions& run);

}  // namespace nxdkit::artifact
