// PRIVATE to formats/ops: an output that is there already when its command is repeated, by a job
// that was requeued, or killed right after it published. No record and no date is trusted:
// everything that the command would write is compared with what is there.
#pragma once

#include <string>

#include "formats/ops/convert/conversion.h"

namespace nxdkit::ops {

// Whether the request is one that may be repeated, with --resume or --part and without --force, and
// something stands in the output's place.
Result<bool> FindsOutput(const ConvertRequest& request);

// The refusal of an output that stands and differs.
Error InTheWay(const std::string& output, const Error& difference);

// Whether the output is what `conversion` makes, byte for byte: its files of tensors, which are
// used up by it, and all small files; of the files of other parts the names and sizes. kUsage
// naming the first difference, as for any output that is in the way.
Status RequireSameOutput(const ConvertRequest& request, Conversion& conversion,
                         const Executor& executor);

}  // namespace nxdkit::ops
