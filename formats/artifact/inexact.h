// Counts what F64 loses on its way to F32, where nobody asked for another dtype: the state of an
// optimizer that has no F64 in the output.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/run.h"
#include "lib/plan/executor.h"

namespace nxdkit::artifact {

// Reads what is stored as F64 and made F32 once more. One line with tensors and elements whose
// value is another one afterwards; none where all are exact.
Result<std::vector<std::string>> InexactElements(const Plan& plan, const BoundLayout& source,
                                                 const Layout& layout,
                                                 const std::vector<OutputTensor>& outputs,
                                                 const RunOptions& run);

}  // namespace nxdkit::artifact
