// ckpt-inspect: what an artifact is, and what is in it.
#include <fmt/core.h>

#include "formats/kinds/open.h"
#include "formats/ops/inspect/tensors.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "lib/system/signals.h"
#include "tools/cli/tool.h"
#include "tools/conversions/kind_options.h"
#include "tools/conversions/sides.h"
#include "tools/inspect/report.h"
#include "tools/inspect/tensors.h"

namespace nxdkit::tool {
namespace {

struct Args {
  std::string path;
  std::optional<std::string> from;
  std::vector<std::string> filters;
  std::optional<int> top;
  bool stats = false;
  artifact::Arguments layout;
};

constexpr size_t kShownTensors = 20;  // without --top, --filter and --json

const ToolInfo kInfo = {
    .name = "ckpt-inspect",
    .summary = "says what a checkpoint is and what is in it",
    .details =
        "PATH is a Hugging Face folder, a safetensors file, a torch archive, an NxD shard set, "
        "one of its shards or its optimizer, a rollout bundle, a compiled model.pt or NEFF, a "
        "compile cache, or a LoRA adapter. Names and shapes are read; values only with --stats. "
        "Nothing that is in a file is ever executed.\n"
        "Layout options describe an NxD set that carries no record of its layout.",
    .findings = "",
    .common = kTakesJobs | kTakesMaxMemory,
    .examples = {{"ckpt-inspect shards", "what is in this folder"},
                 {"ckpt-inspect --filter '*self_attn*' --top 10 --stats model",
                  "the ten largest attention tensors with their value ranges"},
                 {"ckpt-inspect --json --top 0 bundle", "the summary alone, for a script"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Arguments");
  table.Positional("PATH", &args.path, "what to inspect: a folder or a file");
  table.Choice("from", KindNames({"delta"}), &args.from,
               "format of PATH, where it cannot be recognised");
  table.Group("Tensors");
  table.Integer("top", "N", &args.top, {0, std::numeric_limits<int>::max()},
                "list the N largest tensors only; 0 lists none");
  table.TextList("filter", "GLOB", &args.filters, "list only tensors whose names match");
  table.Flag("stats", &args.stats,
             "read the values of the listed tensors: minimum, maximum, mean, NaN, Inf and zeros");
  AddKindOptions(table, args.layout, OfReader(), "Layout of PATH");
}

std::string MoreLine(size_t shown, size_t all) {
  if (shown >= all) return "";
  return fmt::format("... and {} more tensors (--filter GLOB, --top N and --json list them)\n",
                     all - shown);
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  ops::InspectRequest request{args.path, HintsOf(args.layout), args.stats, StopIfInterrupted};
  if (args.from) request.kind = kinds::KindFromName(*args.from);
  const auto found = ops::Inspect(request);
  if (!found.ok()) {
    // Who asks of an empty folder asks where it lies.
    if (found.error().code() == Errc::kUnsupported && KindForHint(args.path) == PathKind::kFolder)
      context.Warn(fmt::format("{} lies on {}", EscapeControl(args.path),
                               FileSystemText(MountOf(args.path))));
    return found.error();
  }
  const ops::Inspection& inspection = *found;
  context.Tell(inspection.warnings, inspection.artifact.choices);

  // The order of the files is for programs.
  ops::Selection selection{args.filters, std::nullopt, !context.json()};
  if (args.top) selection.top = static_cast<uint64_t>(*args.top);
  std::vector<ops::TensorPlace> listed = ops::SelectTensors(inspection, selection);
  const size_t selected = listed.size();
  const bool limited = !args.top && args.filters.empty() && !context.json();
  if (limited && selected > kShownTensors) listed.resize(kShownTensors);

  if (args.stats && inspection.tensors == 0 && inspection.neffs.empty() && !inspection.cache)
    return BadUsage("--stats reads the values of tensors, and there are none").in(args.path);
  if (!args.filters.empty() && selected == 0)
    context.Warn(fmt::format("no tensor matches --filter; there are {}", inspection.tensors));
  ListedStatistics statistics;
  if (args.stats) {
    const Runner runner(context);
    std::vector<const StoredTensor*> tensors;
    for (const ops::TensorPlace place : listed) tensors.push_back(&inspection.tensor(place));
    NXDKIT_ASSIGN(statistics, ops::ComputeStatistics(tensors, runner.options()));
  }
  ToolAnswer answer;
  if (context.json()) {
    answer.fields = SummaryJson(inspection);
    answer.fields["tensors"] = TensorsJson(inspection, listed, statistics);
    return answer;
  }
  answer.text = SummaryText(inspection);
  const std::string table = TensorTable(inspection, listed, statistics);
  if (!table.empty()) answer.text += "\n" + table;
  answer.text += MoreLine(listed.size(), selected);
  return answer;
}

}  // namespace
}  // namespace nxdkit::tool

int main(int argc, char** argv) {
  return nxdkit::tool::RunTool<nxdkit::tool::Args>(argc, argv, nxdkit::tool::kInfo,
                                                   nxdkit::tool::AddOptions, nxdkit::tool::Run);
}
