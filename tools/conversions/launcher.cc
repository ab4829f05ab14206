#include "tools/conversions/launcher.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/process.h"
#include "tools/conversions/volcano.h"

namespace nxdkit::tool {
namespace {

constexpr int kMaxParts = 1'000'000;

bool Has(const Environment& environment, const char* name) { return environment.contains(name); }

Result<int> NumberOf(const Environment& environment, const char* name) {
  const auto it = environment.find(name);
  if (it == environment.end())
    return BadUsage("{} is not set: the number of parts cannot be known", name)
        .hint("say --part I/N");
  if (const std::optional<int> value = ParseNumber<int>(it->second)) return *value;
  return BadUsage("{}={} is not a number", name, it->second);
}

Status CheckPart(const ops::Part& part, std::string_view what) {
  if (part.count >= 1 && part.count <= kMaxParts && part.index >= 0 && part.index < part.count)
    return OkStatus();
  return BadUsage(
      "{}: part {} of {} does not exist; parts are counted from 0 and there are at most {}", what,
      part.index, part.count, kMaxParts);
}

// A plain array 0-7, 1-8 or 4-8:2. The gaps of a list 1,5,9 cannot be seen from outside.
Result<ops::Part> SlurmArray(const Environment& environment) {
  NXDKIT_ASSIGN(const int id, NumberOf(environment, "SLURM_ARRAY_TASK_ID"));
  NXDKIT_ASSIGN(const int min, NumberOf(environment, "SLURM_ARRAY_TASK_MIN"));
  NXDKIT_ASSIGN(const int max, NumberOf(environment, "SLURM_ARRAY_TASK_MAX"));
  NXDKIT_ASSIGN(const int count, NumberOf(environment, "SLURM_ARRAY_TASK_COUNT"));
  int step = 1;
  if (Has(environment, "SLURM_ARRAY_TASK_STEP"))
    NXDKIT_TRY(NumberOf(environment, "SLURM_ARRAY_TASK_STEP").To(step));
  if (step < 1 || max < min || (max - min) / step + 1 != count || (id - min) % step != 0)
    return BadUsage(
               "the Slurm array from {} to {} in steps of {} has {} tasks: its parts cannot be "
               "numbered",
               min, max, step, count)
        .hint("use an array without gaps, or say --part I/N");
  return ops::Part{.index = (id - min) / step, .count = count, .numbered = true};
}

struct Row {
  const char* index;
  const char* count;
  bool only_with_count = false;  // ignore the index without a count
  bool numbered = true;          // Part::numbered
};
constexpr Row kByHand[] = {{"PART_INDEX", "PART_COUNT", false, false}};
constexpr Row kProcesses[] = {{"RANK", "WORLD_SIZE", true},
                              {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                              {"PMI_RANK", "PMI_SIZE"},
                              // A batch script has SLURM_PROCID=0 too; the count comes with srun.
                              {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", true}};
constexpr Row kArrays[] = {{"AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE"}};
constexpr Row kJobs[] = {{"AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_NUM_NODES"},
                         {"JOB_COMPLETION_INDEX", "PART_COUNT"},
                         {"VC_TASK_INDEX", "PART_COUNT", true, false}};

// The part that a launcher gives, and the variables that it comes from.
struct Found {
  ops::Part part;
  const char* index = nullptr;
};
using Words = std::optional<Found>;

Result<Words> ReadRow(const Row& row, const Environment& environment) {
  if (!Has(environment, row.index)) return Words();
  if (row.only_with_count && !Has(environment, row.count)) return Words();
  NXDKIT_ASSIGN(const int index, NumberOf(environment, row.index));
  NXDKIT_ASSIGN(const int count, NumberOf(environment, row.count));
  const ops::Part part{.index = index, .count = count, .numbered = row.numbered};
  NXDKIT_TRY(CheckPart(part, row.index));
  return Words(Found{part, row.index});
}

// The first launcher whose variables are set.
template <size_t kRows>
Result<Words> FirstOf(const Row (&rows)[kRows], const Environment& environment) {
  for (const Row& row : rows) {
    NXDKIT_ASSIGN(const Words found, ReadRow(row, environment));
    if (found) return found;
  }
  return Words();
}

Result<Words> ArrayOf(const Environment& environment) {
  if (!Has(environment, "SLURM_ARRAY_TASK_ID")) return FirstOf(kArrays, environment);
  NXDKIT_ASSIGN(const ops::Part part, SlurmArray(environment));
  return Words(Found{part, "SLURM_ARRAY_TASK_ID"});
}

std::string HostName(const Environment& environment) {
  const auto it = environment.find("HOSTNAME");
  if (it != environment.end() && !it->second.empty()) return it->second;
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// A different PART_COUNT set by hand means other pods than those counted here.
Status CheckCountByHand(const ops::Part& part, const Environment& environment) {
  if (!Has(environment, "PART_COUNT")) return OkStatus();
  NXDKIT_ASSIGN(const int count, NumberOf(environment, "PART_COUNT"));
  if (count == part.count) return OkStatus();
  return BadUsage(
             "PART_COUNT={}, and by the job's VC_ variables this is pod {} of {}: the same part "
             "could be made in several pods",
             count, part.index, part.count)
      .hint("leave PART_COUNT out if only these pods convert, or say --part I/N");
}

Result<Words> JobOf(const Environment& environment) {
  const bool volcano = Has(environment, "VC_TASK_INDEX");
  // The index counts the pods of one task, and TorchX makes one task for each replica: where the
  // tasks are named, or TorchX made them, PART_COUNT does not make a part of it.
  const bool counts_alone = NamesTasks(environment) || Has(environment, "TORCHX_IMAGE");
  if (!volcano || !counts_alone) {
    NXDKIT_ASSIGN(const Words job, FirstOf(kJobs, environment));
    if (job || !volcano) return job;
  }
  NXDKIT_ASSIGN(const ops::Part part, VolcanoPart(environment, HostName(environment)));
  NXDKIT_TRY(CheckPart(part, "VC_TASK_INDEX"));
  NXDKIT_TRY(CheckCountByHand(part, environment));
  return Words(Found{part, "VC_TASK_INDEX"});
}

// A message about launchers that number the same processes differently.
std::string Disagreement(const Found& taken, const Environment& environment) {
  std::string text;
  for (const Row& row : kProcesses) {
    const Result<Words> read = ReadRow(row, environment);
    if (!read.ok() || !*read) continue;
    const Found& other = **read;
    if (other.part.index == taken.part.index && other.part.count == taken.part.count) continue;
    text += fmt::format("{} says part {} of {}; ", other.index, other.part.index, other.part.count);
  }
  if (!text.empty())
    text +=
        fmt::format("{} was taken: part {} of {}", taken.index, taken.part.index, taken.part.count);
  return text;
}

Result<ops::Part> InArray(const Found& array, const Words& process) {
  const ops::Part inner = process ? process->part : ops::Part{0, 1};
  if (array.part.count > kMaxParts / inner.count)
    return BadUsage("{} jobs of {} processes are over the limit of {} parts", array.part.count,
                    inner.count, kMaxParts);
  return ops::Part{.index = array.part.index * inner.count + inner.index,
                   .count = array.part.count * inner.count,
                   .numbered = true};
}

Result<ops::Part> FromLauncher(const Environment& environment) {
  NXDKIT_ASSIGN(const Words by_hand, FirstOf(kByHand, environment));
  if (by_hand) return by_hand->part;
  NXDKIT_ASSIGN(const Words process, FirstOf(kProcesses, environment));
  NXDKIT_ASSIGN(const Words array, ArrayOf(environment));
  if (array) return InArray(*array, process);
  // Their numbers run over all pods and nodes.
  if (process) {
    ops::Part part = process->part;
    part.note = Disagreement(*process, environment);
    return part;
  }
  NXDKIT_ASSIGN(const Words job, JobOf(environment));
  if (job) return job->part;
  return BadUsage("no launcher says which part this process is").hint("say --part I/N");
}

}  // namespace

Environment ThisEnvironment() {
  Environment environment;
  for (const std::string& entry : WholeEnvironment())
    if (const size_t equals = entry.find('='); equals != std::string::npos)
      environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  return environment;
}

int ProcessesHere(const Environment& environment) {
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"})
    if (Has(environment, name))
      if (const Result<int> count = NumberOf(environment, name); count.ok() && *count > 0)
        return *count;
  return 1;
}

Result<ops::Part> PartOf(const std::string& text, const Environment& environment) {
  if (text == "auto") return FromLauncher(environment);
  const size_t slash = text.find('/');
  const std::optional<int> index = ParseNumber<int>(std::string_view(text).substr(0, slash));
  const std::optional<int> count = slash == std::string::npos
                                       ? std::nullopt
                                       : ParseNumber<int>(std::string_view(text).substr(slash + 1));
  if (!index || !count) return BadUsage("--part: found {}, expected I/N or auto", text);
  const ops::Part part{*index, *count};
  NXDKIT_TRY(CheckPart(part, "--part"));
  return part;
}

void AddPartOption(OptionTable& table, std::optional<std::string>* text) {
  table.Text("part", "I/N", text,
             "make only part I (from 0) of N; auto takes both from the launcher");
}

Status TakePart(const std::optional<std::string>& text, ops::ConvertRequest& request) {
  if (!text) return OkStatus();
  if (std::holds_alternative<ops::Slot>(request.place))
    return BadUsage("one process refreshes a bundle: --part does not apply with --into");
  NXDKIT_ASSIGN(request.place, PartOf(*text, ThisEnvironment()));
  return OkStatus();
}

}  // namespace nxdkit::tool
