#include "tools/cache/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "formats/hardware/resolve.h"
#include "formats/ops/export/target.h"
#include "formats/ops/precompile/compile_graphs.h"
#include "formats/ops/precompile/room.h"
#include "lib/base/duration.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "lib/system/look.h"
#include "lib/system/paths.h"
#include "lib/system/process.h"
#include "lib/system/system.h"
#include "tools/cache/look.h"

namespace nxdkit::tool {
namespace {

constexpr char kRetriesVariable[] = "NEURON_PARALLEL_COMPILE_MAX_RETRIES";
constexpr int kMostRetries = 100;

Result<int> RetriesOf(const CacheArgs& args) {
  if (args.retries) return *args.retries;
  const std::string said = EnvironmentValue(kRetriesVariable);
  if (said.empty()) return 0;
  const std::optional<int> number = ParseNumber<int>(said);
  if (!number || *number < 0 || *number > kMostRetries)
    return BadUsage("{} is \"{}\", expected a number from 0 to {}", kRetriesVariable, said,
                    kMostRetries);
  return *number;
}

using Poll = std::function<Status()>;

// The target of this machine; "" where there are no devices, or they do not report it.
Result<std::string> TargetOfMachine(const Poll& poll) {
  NXDKIT_ASSIGN(const std::optional<hardware::Machine> machine,
                hardware::MachineHere(hardware::SourcesOfProcess(poll)));
  if (!machine) return std::string();
  const Result<hardware::Instance> instance = hardware::InstanceOf(*machine);
  return instance.ok() ? instance->platform : std::string();
}

struct Target {
  std::string name;
  std::string by;  // the option, variable or machine that named it
};

// The target of graphs that do not name their own; empty where nothing names it.
Result<Target> SaidTarget(const CacheArgs& args, const Poll& poll) {
  if (args.target) return Target{*args.target, "--target"};
  const std::string variable = EnvironmentValue(ops::kTargetVariable);
  if (!variable.empty()) return Target{variable, ops::kTargetVariable};
  NXDKIT_ASSIGN(const std::string machine, TargetOfMachine(poll));
  return Target{machine, machine.empty() ? "" : "this machine"};
}

Error NoTarget(const std::string& what) {
  return BadUsage("{} not name a target", what)
      .hint(
          "--target trn1, trn2 or inf2: the kind of machine on which they run; this one has no "
          "Neuron devices that show it");
}

Result<Target> TargetOf(const CacheArgs& args, const ops::CompilePlan& plan, const Poll& poll) {
  const auto needed = std::ranges::count_if(plan.graphs, ops::NeedsTarget);
  if (needed == 0) return Target();
  NXDKIT_ASSIGN(const Target target, SaidTarget(args, poll));
  if (!target.name.empty()) return target;
  return NoTarget("the flags of " + Counted(needed, "graph") + " do");
}

Result<ops::CompileOptions> OptionsOf(const CacheArgs& args, const ops::CompilePlan& plan,
                                      const Poll& poll, std::string& target_by) {
  ops::CompileOptions options;
  NXDKIT_ASSIGN(Target target, TargetOf(args, plan, poll));
  options.target = std::move(target.name);
  target_by = std::move(target.by);
  NXDKIT_TRY(RetriesOf(args).To(options.retries));
  options.jobs = args.jobs.value_or(ops::DefaultCompilers());
  options.memory = FreeMemoryBytes();
  if (args.memory_per_job) NXDKIT_TRY(ParseBytes(*args.memory_per_job).To(options.memory_per_job));
  options.most_seconds = args.job_timeout;
  const std::string temporary = EnvironmentValue("TMPDIR");
  // The compiler runs in a folder of its own, so every path that it gets is absolute.
  NXDKIT_TRY(RealPath(args.work_dir.value_or(temporary.empty() ? "/tmp" : temporary))
                 .To(options.work_folder));
  options.poll = poll;
  return options;
}

std::string SavedText(const ops::CompilePlan& plan) {
  if (plan.noted == 0) return "";
  return fmt::format(" ({} of compiling saved, noted of {})", HumanDuration(plan.saved_seconds),
                     plan.noted);
}

std::string VersionText(const ops::GraphCompiler& compiler) {
  return BaseName(compiler.command[0]) +
         (compiler.version.empty() ? " of an unknown version" : " " + compiler.version);
}

// Reports graphs and results of other compilers: a run with this one looks in another folder.
Status CheckCompiler(const ops::CompilePlan& plan, const ops::GraphCompiler& compiler,
                     ToolContext& context) {
  for (const std::string& build : plan.other_builds)
    context.Warn(
        fmt::format("finished entries are from compiler {}, this one is {}: the engine looks for "
                    "the results of its own compiler",
                    EscapeControl(build), compiler.version));
  std::set<std::string> versions;
  for (const neff::Graph& graph : plan.graphs) versions.insert(graph.compiler);
  if (compiler.version.empty() && versions.size() > 1)
    return Error(Errc::kFindings,
                 fmt::format("the compiler does not report its version, and the graphs are for {}",
                             fmt::join(versions, ", ")))
        .in(compiler.command[0]);
  if (compiler.version.empty() && !plan.graphs.empty())
    context.Warn(
        fmt::format("the compiler does not report its version: assuming {}", *versions.begin()));
  const size_t others = plan.other.size() + plan.finished_other.size();
  if (others == 0) return OkStatus();
  const std::string text = fmt::format(
      "{} without a result and {} finished are of another compiler than {}, such as {}",
      Counted(plan.other.size(), "graph"), plan.finished_other.size(), compiler.version,
      EscapeControl(plan.other.empty() ? plan.finished_other.front() : plan.other.front()));
  if (plan.graphs.empty() && plan.finished == 0)
    return Error(Errc::kFindings, text)
        .in(plan.tree.root)
        .hint("a run with this compiler looks for neuronxcc-" + compiler.version +
              " and compiles all of it again; --compiler names another one");
  context.Warn(text + ": left as they are");
  return OkStatus();
}

void WarnOfTarget(const std::string& target, ToolContext& context) {
  constexpr auto kKnown =
      std::to_array<std::string_view>({"inf1", "inf2", "trn1", "trn1n", "trn2", "trn3"});
  if (target.empty() || std::ranges::find(kKnown, target) != kKnown.end()) return;
  context.Warn(
      fmt::format("the target {} is none of {}", EscapeControl(target), fmt::join(kKnown, ", ")));
}

void TellBegin(const ops::CompilePlan& plan, const ops::GraphCompiler& compiler,
               const ops::CompileOptions& options, const std::string& target_by,
               const ToolContext& context) {
  if (plan.graphs.empty()) return;
  const std::string target =
      options.target.empty() ? "" : fmt::format(" for {} ({})", options.target, target_by);
  const std::string again =
      plan.failed_before == 0
          ? ""
          : fmt::format(" ({} failed before, and {} tried again)", plan.failed_before,
                        plan.failed_before == 1 ? "is" : "are");
  context.Note(fmt::format("{} to compile{}{}, {} there; {}, at most {} at once{}",
                           Counted(plan.graphs.size(), "graph"), target, again, plan.finished,
                           VersionText(compiler), options.jobs,
                           options.memory ? " in " + HumanBytes(*options.memory) : ""));
}

std::string StateText(const ops::CompileProgress& progress) {
  std::string text = fmt::format("{} running", progress.running);
  if (progress.running > 0)
    text += fmt::format(" for up to {}", HumanDuration(progress.longest_seconds));
  if (!progress.waiting.empty())
    text += fmt::format(", waiting for {} that another process compiles ({})",
                        progress.waiting.size(), progress.waiting.front());
  return text;
}

void TellItem(const ops::CompileItem* item, const ops::CompileProgress& progress,
              const ToolContext& context) {
  std::string text;
  if (item == nullptr)
    text = StateText(progress);
  else if (item->outcome == "compiled")
    text = fmt::format("compiled {} in {}", item->entry, HumanDuration(item->seconds));
  else if (item->outcome == "elsewhere")
    text = fmt::format("{} was compiled by another process", item->entry);
  else
    text = fmt::format("{} {}: {}", item->entry, item->outcome, item->message);
  const uint64_t done = progress.compiled + progress.elsewhere;
  text += fmt::format("; {} of {} done", done, progress.total);
  if (progress.failed > 0) text += fmt::format(", {} failed", progress.failed);
  if (progress.left() > 0) text += fmt::format(", {} left", progress.left());
  if (progress.left() > 0 && progress.seconds_left)
    text += ", about " + HumanDuration(*progress.seconds_left);
  context.Note(EscapeControl(text));
}

Json ItemJson(const ops::CompileItem& item) {
  return {{"entry", item.entry},
          {"outcome", item.outcome},
          {"message", item.message.empty() ? Json() : Json(item.message)},
          {"log", item.log.empty() ? Json() : Json(item.log)},
          {"seconds", item.seconds},
          {"tries", item.tries}};
}

Json ReasonsJson(const std::vector<ops::NamedReason>& list) {
  Json json = Json::array();
  for (const ops::NamedReason& each : list)
    json.push_back({{"entry", each.entry}, {"reason", each.reason}});
  return json;
}

ToolAnswer Answer(const ops::CompilePlan& plan, const ops::GraphCompiler& compiler,
                  const ops::CompileReport& report, const std::string& target, bool dry_run) {
  ToolAnswer answer;
  // A run uses them; compiling a whole cache does not need those of other compilers.
  const bool lacks_others = plan.is_of_run && !plan.other.empty();
  Json items = Json::array();
  uint64_t compiled = 0;
  uint64_t elsewhere = 0;
  uint64_t failed = 0;
  for (const ops::CompileItem& item : report.items) {
    items.push_back(ItemJson(item));
    compiled += item.outcome == "compiled";
    elsewhere += item.outcome == "elsewhere";
    const bool fine = item.outcome == "compiled" || item.outcome == "elsewhere";
    if (fine || dry_run) continue;
    ++failed;
    answer.text += EscapeControl(fmt::format("{}: {}: {}", item.outcome, item.entry, item.message));
    if (item.tries > 1) answer.text += fmt::format(" ({} tries)", item.tries);
    if (!item.log.empty()) answer.text += "\n  log: " + EscapeControl(item.log);
    answer.text += "\n";
  }
  for (const ops::NamedReason& each : plan.left)
    answer.text += EscapeControl("left: " + each.entry + ": " + each.reason) + "\n";
  answer.text += fmt::format("{}: compiled {} in {}", EscapeControl(plan.tree.root), compiled,
                             HumanDuration(report.seconds));
  if (elsewhere > 0) answer.text += fmt::format(", {} by other processes", elsewhere);
  if (failed > 0) answer.text += fmt::format(", {} failed", failed);
  answer.text += fmt::format("; {} there before{}\n", plan.finished, SavedText(plan));
  answer.findings = failed > 0 || !plan.left.empty() || lacks_others;
  answer.fields = {{"compiler", {{"command", compiler.command}, {"version", compiler.version}}},
                   {"graphs", std::move(items)},
                   {"compiled", compiled},
                   {"elsewhere", elsewhere},
                   {"failed", failed},
                   {"failed_before", plan.failed_before},
                   {"there", plan.finished},
                   {"left", ReasonsJson(plan.left)},
                   {"other_compiler", plan.other},
                   {"seconds", report.seconds},
                   {"saved_seconds", plan.noted > 0 ? Json(plan.saved_seconds) : Json()},
                   {"saved_noted", plan.noted},
                   {"target", target.empty() ? Json() : Json(target)},
                   {"finished_other", plan.finished_other},
                   {"dry_run", dry_run}};
  return answer;
}

ToolAnswer DryAnswer(const ops::CompilePlan& plan, const ops::GraphCompiler& compiler,
                     const std::string& target) {
  ops::CompileReport nothing;
  std::string text;
  for (const neff::Graph& graph : plan.graphs) {
    ops::CompileItem& item = nothing.items.emplace_back();
    item.entry = graph.name;
    item.outcome = "would compile";
    text +=
        fmt::format("would compile {} ({})\n", EscapeControl(graph.name), HumanBytes(graph.bytes));
  }
  ToolAnswer answer = Answer(plan, compiler, nothing, target, true);
  answer.text = text + fmt::format("{}: {} to compile, {} there\n", EscapeControl(plan.tree.root),
                                   plan.graphs.size(), plan.finished);
  return answer;
}

}  // namespace

Status CheckCompileOptions(const CacheArgs& args) {
  const bool compiles = args.command == "compile" || args.command == "warm";
  const bool said = args.compiler || args.target || args.jobs || args.memory_per_job ||
                    args.retries || args.work_dir;
  if (said && !compiles)
    return BadUsage(
        "--compiler, --target, --jobs, --memory-per-job, --retries and --work-dir belong to "
        "compile and warm");
  if (args.memory_per_job) {
    const Result<uint64_t> bytes = ParseBytes(*args.memory_per_job);
    if (!bytes.ok()) return bytes.error();
  }
  return OkStatus();
}

Status CheckBeforeProgram(const CacheArgs& args, const Poll& poll) {
  const auto found = ops::FindGraphCompiler(args.compiler, poll);
  if (!found.ok()) return found.error();
  const Result<int> retries = RetriesOf(args);
  if (!retries.ok()) return retries.error();
  NXDKIT_ASSIGN(const Target target, SaidTarget(args, poll));
  const bool in_flags = EnvironmentValue("NEURON_CC_FLAGS").find("--target") != std::string::npos;
  if (target.name.empty() && !in_flags) return NoTarget("NEURON_CC_FLAGS and the options do");
  return OkStatus();
}

Result<ToolAnswer> Compile(const CacheArgs& args, const neff::FoundTree& tree,
                           const std::optional<std::vector<std::string>>& wanted,
                           ToolContext& context) {
  NXDKIT_ASSIGN(const bool not_made_yet, IsNotMadeYet(args, tree.root));
  NXDKIT_ASSIGN(const bool there, IsThere(tree.root));
  if (!there && !not_made_yet) return NotFound("there is no such folder").in(tree.root);
  // No compiler is needed where there is nothing to compile.
  const Result<ops::GraphCompiler> found = ops::FindGraphCompiler(args.compiler, context.poll());
  const ops::GraphCompiler compiler = found.ok() ? *found : ops::GraphCompiler();
  NXDKIT_ASSIGN(const ops::CompilePlan plan,
                ops::PlanCompile(tree, compiler, wanted, context.poll()));
  const bool needed = args.compiler || (!plan.graphs.empty() && !context.common().dry_run);
  if (!found.ok() && needed) return found.error();
  if (found.ok()) NXDKIT_TRY(CheckCompiler(plan, compiler, context));
  std::string target_by;
  NXDKIT_ASSIGN(ops::CompileOptions options, OptionsOf(args, plan, context.poll(), target_by));
  if (context.common().dry_run) return DryAnswer(plan, compiler, options.target);
  WarnOfTarget(options.target, context);
  TellBegin(plan, compiler, options, target_by, context);
  options.tell = [&](const ops::CompileItem* item, const ops::CompileProgress& progress) {
    TellItem(item, progress, context);
  };
  NXDKIT_ASSIGN(const ops::CompileReport report, ops::CompileGraphs(plan, compiler, options));
  return Answer(plan, compiler, report, options.target, false);
}

}  // namespace nxdkit::tool
