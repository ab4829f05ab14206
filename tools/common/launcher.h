// PRIVATE to tools/: which part of a split job this process is, as the user or a launcher says.
#pragma once

#include <functional>
#include <string>

#include "formats/ops/convert.h"

namespace nxdkit::tool {

// The value of an environment variable, or nullptr.
using Environment = std::function<const char*(const char* name)>;

// "I/N" with 0 <= I < N, or "auto". For auto, an independent job (Slurm array, Kubernetes Indexed
// Job with PART_COUNT, Volcano with PART_COUNT) times a process in its step (Open MPI, PMI, srun):
//   part = job * processes + process,  N = jobs * processes.
// kUsage when N cannot be known: a sparse array, or PART_COUNT missing.
Result<ops::Part> PartOf(const std::string& text, const Environment& environment);

}  // namespace nxdkit::tool
