// An output that is there already when its command is repeated: a job that was requeued, or killed
// right after it published. Nobody's word is taken for it, no record's and no date's: everything
// that the command would write is compared with what is there.
#pragma once

#include <string>
#include <vector>

#include "formats/ops/convert/convert_parts.h"

namespace nxdkit::ops {

// Whether the request is one that may be repeated, with --resume or --part and without --force, and
// something stands in the output's place.
bool FindsOutput(const ConvertRequest& request);

// A planned file of tensors.
struct PlannedFile {
  std::string path;
  uint64_t bytes = 0;
};
std::vector<PlannedFile> PlannedFiles(const OutputPlan& output);

// The refusal of an output that stands and differs.
Error InTheWay(const std::string& output, const Error& difference);

// Whether the output is what `prepared` makes, byte for byte: its files of tensors, which are used
// up by it, and all small files; of the others of `all` the names and sizes. kUsage naming the
// first difference, as for any output that is in the way.
Status RequireSameOutput(Prepared& prepared, const ConvertRequest& request,
                         const std::vector<PlannedFile>& all, const Executor& executor);

}  // namespace nxdkit::ops
