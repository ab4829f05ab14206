// Echoes its options, or ends in the way named by its INPUT.
#include <fmt/format.h>

#include <csignal>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "formats/kinds/table.h"
#include "lib/system/signals.h"
#include "tools/cli/tool.h"
#include "tools/conversions/kind_options.h"

namespace nxdkit::tool {
namespace {

struct Args {
  std::string input;
  std::string output = "none";
  ops::Arguments layout;
  ops::Arguments against;
  std::optional<int> top;
  std::vector<std::string> filters;
  bool stats = false;
  bool sync = true;
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Arguments");
  table.Positional("INPUT", &args.input, "how to end");
  table.Positional("OUTPUT", &args.output, "ignored").required(false);
  table.Group("Options");
  table.Integer("top", "N", &args.top, {0, 1000}, "a number");
  table.TextList("filter", "GLOB", &args.filters, "a list");
  table.Flag("stats", &args.stats, "a flag");
  table.Toggle("sync", &args.sync, "a toggle");
  AddKindOptions(table, args.layout,
                 {{{&ops::kNxd, ops::kAsSource | ops::kAsTarget}, {&ops::kRollout, ops::kAsTarget}},
                  {"config", "dtype"},
                  {}},
                 "Layout");
  AddKindOptions(table, args.against, {{{&ops::kNxd, ops::kAsRead}}, {"config"}},
                 "Layout of the other", "against-");
}

Result<ToolAnswer> EndBadly(const std::string& how) {
  if (how == "corrupt")
    return Error(Errc::kCorrupt, "header length 300 is over the limit of 100")
        .in("model.safetensors")
        .member("data/0")
        .on("bad\nname")
        .rank(3)
        .at(17)
        .hint("copy it again");
  if (how == "unsupported") return Error(Errc::kUnsupported, "cannot do it correctly");
  if (how == "io") return Error(Errc::kIo, "no space");
  if (how == "limit") return Error(Errc::kLimit, "1 MiB is too little");
  if (how == "refused") return Error(Errc::kFindings, "the plan is refused");
  if (how == "problems")
    return Error(Errc::kUsage,
                 "2 problems in the configuration:\n[1] a\nb [9] is wrong\n[2] c is missing");
  if (how == "throw") throw std::runtime_error("boom");
  if (how == "memory") throw std::bad_alloc();
  if (how == "sigint" || how == "sigterm") {
    std::raise(how == "sigint" ? SIGINT : SIGTERM);
    return StopIfInterrupted().error();
  }
  if (how == "check") NXDKIT_CHECK(how.empty());
  return Error(Errc::kNotFound, "no such input").in(how);
}

// Until a line has been drawn: it is ten times a second.
Result<ToolAnswer> WorkForAWhile(ToolContext& context) {
  const Stopwatch watch;
  context.host().BeginPhase("work", 0);
  while (watch.Seconds() < 0.35) context.host().AddBytes(1);
  context.host().EndPhases();
  return ToolAnswer{};
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  if (args.input == "warn") context.Warn("careful\x1b[31m");
  context.Detail("a detail");
  if (args.input == "progress") return WorkForAWhile(context);
  if (args.input == "done") return ToolAnswer{.text = "it is done\n", .brief = ""};
  if (args.input != "good" && args.input != "findings" && args.input != "warn" &&
      args.input != "-5")
    return EndBadly(args.input);
  const std::optional<bool> xser = args.layout.Toggle("xser");
  ToolAnswer answer;
  answer.findings = args.input == "findings";
  answer.fields = {{"tp", args.layout.Number("tp").value_or(0)},
                   {"against_tp", args.against.Number("tp").value_or(0)},
                   {"qkv", args.layout.Text("qkv").value_or("")},
                   {"tag", args.layout.Text("tag").value_or("")},
                   {"xser", xser ? (*xser ? "yes" : "no") : "unset"},
                   {"top", args.top.value_or(-1)},
                   {"filters", args.filters},
                   {"stats", args.stats},
                   {"sync", args.sync},
                   {"input", args.input},
                   {"output", args.output},
                   {"jobs", context.common().jobs},
                   {"max_memory", context.common().max_memory},
                   {"dry_run", context.common().dry_run},
                   {"force", context.common().force},
                   {"not_utf8", "\xff"}};
  answer.text = fmt::format("tp {}\n", args.layout.Number("tp").value_or(0));
  return answer;
}

const ToolInfo kInfo = {
    .name = "frame-tool",
    .summary = "shows that the frame holds",
    .details =
        "A paragraph that is long enough to be folded, because a line of help that runs "
        "past the edge of the screen is hard to read.",
    .findings = "there are findings",
    .common = kTakesJobs | kTakesMaxMemory | kTakesDryRun | kTakesForce | kTakesResume,
    .essentials = {"top"},
    .examples = {{"frame-tool good", "prints the tensor parallel size"}},
};

constinit const Command kFrameTool = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace
}  // namespace nxdkit::tool

int main(int argc, char** argv) {
  return nxdkit::tool::RunTool(argc, argv, nxdkit::tool::kFrameTool);
}
