#include "tools/conversions/launcher.h"

#include <cstdlib>
#include <optional>
#include <string_view>

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::tool {
namespace {

constexpr int kMaxParts = 1'000'000;

// The variables of one launcher, each a number or not there.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool Has(const char* name) const { return environment_(name) != nullptr; }
  Result<int> Get(const char* name) const {
    const char* text = environment_(name);
    if (!text)
      return BadUsage("{} is not set: the number of parts cannot be known", name)
          .hint("say --part I/N");
    if (const std::optional<int> value = ParseNumber<int>(text)) return *value;
    return BadUsage("{}={} is not a number", name, text);
  }

 private:
  const Environment& environment_;
};

Status CheckPart(const ops::Part& part, std::string_view what) {
  if (part.count >= 1 && part.count <= kMaxParts && part.index >= 0 && part.index < part.count)
    return OkStatus();
  return BadUsage(
      "{}: part {} of {} does not exist; parts are counted from 0 and there are at most {}", what,
      part.index, part.count, kMaxParts);
}

// A plain array 0-7, 1-8 or 4-8:2. What a list 1,5,9 leaves out cannot be told from outside.
Result<ops::Part> SlurmArray(const Variables& variables) {
  NXDKIT_ASSIGN(const int id, variables.Get("SLURM_ARRAY_TASK_ID"));
  NXDKIT_ASSIGN(const int min, variables.Get("SLURM_ARRAY_TASK_MIN"));
  NXDKIT_ASSIGN(const int max, variables.Get("SLURM_ARRAY_TASK_MAX"));
  NXDKIT_ASSIGN(const int count, variables.Get("SLURM_ARRAY_TASK_COUNT"));
  int step = 1;
  if (variables.Has("SLURM_ARRAY_TASK_STEP")) {
    NXDKIT_ASSIGN(step, variables.Get("SLURM_ARRAY_TASK_STEP"));
  }
  if (step < 1 || max < min || (max - min) / step + 1 != count || (id - min) % step != 0)
    return BadUsage(
               "the Slurm array from {} to {} in steps of {} has {} tasks: its parts cannot be "
               "numbered",
               min, max, step, count)
        .hint("use an array without gaps, or say --part I/N");
  return ops::Part{(id - min) / step, count};
}

struct Row {
  const char* index;
  const char* count;
  bool only_with_count = false;
};
constexpr Row kJobs[] = {{"JOB_COMPLETION_INDEX", "PART_COUNT"}, {"VC_TASK_INDEX", "PART_COUNT"}};
constexpr Row kProcesses[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                              {"PMI_RANK", "PMI_SIZE"},
                              // A batch script has SLURM_PROCID=0 too; the count comes with srun.
                              {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", true}};

// The first launcher whose index is set; part 0 of 1 when none is.
template <size_t kRows>
Result<ops::Part> FirstOf(const Row (&rows)[kRows], const Variables& variables) {
  for (const Row& row : rows) {
    if (!variables.Has(row.index)) continue;
    if (row.only_with_count && !variables.Has(row.count)) continue;
    NXDKIT_ASSIGN(const int index, variables.Get(row.index));
    NXDKIT_ASSIGN(const int count, variables.Get(row.count));
    const ops::Part part{index, count};
    NXDKIT_TRY(CheckPart(part, row.index));
    return part;
  }
  return ops::Part{0, 1};
}

Result<ops::Part> FromLauncher(const Variables& variables) {
  const bool array = variables.Has("SLURM_ARRAY_TASK_ID");
  NXDKIT_ASSIGN(const ops::Part job, array ? SlurmArray(variables) : FirstOf(kJobs, variables));
  NXDKIT_ASSIGN(const ops::Part process, FirstOf(kProcesses, variables));
  if (job.count == 1 && process.count == 1 && !array)
    return BadUsage("no launcher says which part this process is").hint("say --part I/N");
  if (job.count > kMaxParts / process.count)
    return BadUsage("{} jobs of {} processes are over the limit of {} parts", job.count,
                    process.count, kMaxParts);
  return ops::Part{job.index * process.count + process.index, job.count * process.count};
}

}  // namespace

Result<ops::Part> PartOf(const std::string& text, const Environment& environment) {
  if (text == "auto") return FromLauncher(Variables(environment));
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
             "make only the files of part I (from 0) of N; the last of the N processes publishes; "
             "auto: as the launcher's variables say");
}

Status TakePart(const std::optional<std::string>& text, ops::ConvertRequest& request) {
  if (!text) return OkStatus();
  if (std::holds_alternative<ops::Slot>(request.place))
    return BadUsage("one process refreshes a bundle: --part does not go with --into");
  NXDKIT_ASSIGN(request.place, PartOf(*text, [](const char* name) { return std::getenv(name); }));
  return OkStatus();
}

}  // namespace nxdkit::tool
