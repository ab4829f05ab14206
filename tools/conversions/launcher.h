// PRIVATE to tools/: which part of a split job this process is, according to the user or a
// launcher.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "formats/ops/convert/convert.h"
#include "tools/cli/option_table.h"

namespace nxdkit::tool {

using Environment = std::map<std::string, std::string>;
Environment ThisEnvironment();

// "I/N" with 0 <= I < N, or "auto". For auto, in this order:
//   PART_INDEX and PART_COUNT, set by hand
//   the process: RANK and WORLD_SIZE (torchrun, Kubeflow, Volcano's plugin pytorch), Open MPI, PMI,
//     a step of srun
//   the job: an array of Slurm or AWS Batch, a node of AWS Batch; JOB_COMPLETION_INDEX (Kubernetes
//     Indexed Job) with PART_COUNT; VC_TASK_INDEX (Volcano) with VC_TASK_NUM, or with PART_COUNT
//     where nothing says which tasks the job has
// A process counts in its array: part = job * processes + process. In all other jobs the processes
// are numbered throughout. kUsage when N cannot be known, or every process would get the same part.
// Parts that a launcher has numbered are told as such (Part::numbered); a text, PART_INDEX, and
// VC_TASK_INDEX with PART_COUNT are not: the pods of two tasks have the same index.
Result<ops::Part> PartOf(const std::string& text, const Environment& environment);

// Processes on this machine, as the launcher says, which share its cores; at least 1.
int ProcessesHere(const Environment& environment);

// The row --part I/N of a command that converts.
void AddPartOption(OptionTable& table, std::optional<std::string>* text);
// Stores its value in `request`, whose other options must be set. kUsage together with --into.
Status TakePart(const std::optional<std::string>& text, ops::ConvertRequest& request);

}  // namespace nxdkit::tool
