// PRIVATE to tools/: which part of a split job this process is, as the user or a launcher says.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "formats/ops/convert/convert.h"
#include "tools/cli/option_table.h"

namespace nxdkit::tool {

// The value of an environment variable, or nullptr.
using Environment = std::function<const char*(const char* name)>;

// "I/N" with 0 <= I < N, or "auto". For auto, an independent job (Slurm array, Kubernetes Indexed
// Job with PART_COUNT, Volcano with PART_COUNT) times a process in its step (Open MPI, PMI, srun; a
// batch script without srun is one process):
//   part = job * processes + process,  N = jobs * processes.
// kUsage when N cannot be known: a sparse array, or PART_COUNT missing.
Result<ops::Part> PartOf(const std::string& text, const Environment& environment);

// The row --part I/N of a command that converts.
void AddPartOption(OptionTable& table, std::optional<std::string>* text);
// What it says, into `request`, whose other options are there. kUsage together with --into.
Status TakePart(const std::optional<std::string>& text, ops::ConvertRequest& request);

}  // namespace nxdkit::tool
