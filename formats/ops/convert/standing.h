// PRIVATE to formats/ops: an output that already exists when its command is repeated, by a job that
// was requeued, or killed right after it published. No record and no date is trusted: everything
// that the command would write is compared with the existing output.
#pragma once

#include <string>

#include "formats/ops/convert/conversion.h"

namespace nxdkit::ops {

// Whether the request may be repeated, with --resume or --part and without --force, and something
// exists in the output's place.
Result<bool> FindsOutput(const ConvertRequest& request);

// The error for an existing output that differs.
Error InTheWay(const std::string& output, const Error& difference);

// Checks that the output is what `conversion` makes, byte for byte: its tensor files, which are
// moved out of it, and all small files; for the files of other parts only names and sizes. kUsage
// naming the first difference, as for any output that is in the way.
Status RequireSameOutput(const ConvertRequest& request, Conversion& conversion,
                         const Executor& executor);

}  // namespace nxdkit::ops
