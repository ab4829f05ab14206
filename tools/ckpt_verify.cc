// ckpt-verify: checks an artifact by itself and against another.
#include <fmt/core.h>

#include <algorithm>

#include "formats/kinds/open.h"
#include "formats/ops/digest/engine_check.h"
#include "formats/ops/verify/fitness.h"
#include "formats/ops/verify/verify.h"
#include "formats/vllm/client.h"
#include "lib/base/errors.h"
#include "lib/base/stopwatch.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "tools/cli/tool.h"
#include "tools/commands.h"
#include "tools/conversions/findings.h"
#include "tools/conversions/kind_options.h"
#include "tools/conversions/serving.h"
#include "tools/conversions/sides.h"

namespace nxdkit::tool {
namespace {

struct Args {
  std::string path;
  std::optional<std::string> from;
  std::optional<std::string> against;
  std::optional<std::string> against_from;
  std::optional<std::string> weights;
  std::optional<std::string> weights_from;
  bool values = true;
  artifact::Arguments layout;
  artifact::Arguments against_layout;
  artifact::Arguments weights_layout;
  std::optional<std::string> engine;
  std::optional<std::string> dtype;
  std::optional<int> timeout;
  std::optional<std::string> for_engine;
  std::optional<std::string> target;
  std::optional<int> attention_dp;
};

constexpr int kEngineSeconds = 600;

const ToolInfo kInfo = {
    .name = "ckpt-verify",
    .summary = "checks an artifact, or compares it with another",
    .details =
        "Structure: the rank grid, names, shapes, dtypes, zero padding, equal replicas, the tied "
        "pair, rank tensors, and the optimizer's state of a training tag.\n"
        "Values: no NaN, no infinity, no norm or matrix that is all zeros.\n"
        "Meaning: on every rank and layer, each query head is with its own key head, and o_proj's "
        "columns match.\n"
        "--against compares every element with another artifact. --weights, --engine and --for "
        "check instead whether a compiled bundle, a running server or an engine's loader has the "
        "right weights.",
    .findings =
        "a check failed, the artifacts differ, or the weights do not fit the bundle or engine",
    .common = kTakesJobs | kTakesMaxMemory,
    .essentials = {"against", "weights", "engine", "for", "tp", "json"},
    .examples = {{"ckpt-verify bundle", "check a bundle"},
                 {"ckpt-verify bundle --against Qwen3-4B", "check that it holds these weights"},
                 {"ckpt-verify compiled --weights Qwen3-4B",
                  "check that a bundle can run these weights"},
                 {"ckpt-verify Qwen3-4B --engine http://127.0.0.1:8000",
                  "check that a server holds these weights"},
                 {"ckpt-verify Qwen3-4B --for vllm-neuron --tp 4 --target trn2",
                  "check that an engine can serve the folder"},
                 {"ckpt-verify shards --config config.json --hw trn2 --kv-multiplier 2",
                  "check a set without a record of its layout"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Input");
  table.Positional("PATH", &args.path, "folder or file to verify");
  table.Choice("from", KindNames({"delta"}), &args.from, "format of PATH; recognised by default");
  table.Toggle("values", &args.values,
               "look for NaNs, infinities and all-zero parameters in every element");
  table.Group("Comparison");
  table.Text("against", "OTHER", &args.against, "compare every element with this artifact")
      .completes(Completes::kPath);
  table.Choice("against-from", KindNames({"delta"}), &args.against_from, "format of OTHER");
  table
      .Text("weights", "CKPT", &args.weights,
            "check whether the bundle PATH can run these weights (or name PATH's weight file)")
      .completes(Completes::kPath);
  table.Choice("weights-from", KindNames({"delta"}), &args.weights_from, "format of CKPT");
  table.Group("Engine");
  table.Text("engine", "URL", &args.engine,
             "compare with the weights of a vLLM server, such as http://HOST:PORT");
  table
      .Choice("dtype", {"auto", "bf16", "f16", "f32"}, &args.dtype,
              "with --engine or --for: element type of the engine")
      .default_text("auto");
  table
      .Integer("timeout", "SECONDS", &args.timeout, kPositive,
               "with --engine: time limit of an answer")
      .default_text(std::to_string(kEngineSeconds));
  table.Choice("for", {"vllm-neuron"}, &args.for_engine,
               "check PATH against this engine's weight loader; --tp and --ep are the engine's");
  table.Choice("target", {"trn2", "trn3"}, &args.target, "with --for: chip of the engine")
      .default_text("trn2");
  table
      .Integer("attention-dp", "A", &args.attention_dp, kPositive,
               "with --for: attention data parallel degree")
      .default_text("1");
  AddKindOptions(table, args.layout, OfReader({"weights"}), "Layout of PATH");
  AddKindOptions(table, args.against_layout, OfReader(), "Layout of OTHER", "against-");
  AddKindOptions(table, args.weights_layout, OfReader({"weights"}), "Layout of CKPT", "weights-");
}

// Whether --weights selects the weights to verify, as it does with a Hugging Face folder. With a
// bundle it names other weights that are to run in it.
bool NamesOwnWeights(const Args& args) {
  if (!args.weights || args.weights_from) return false;
  if (KindForHint(args.path) != PathKind::kFolder) return false;
  if (args.from) return *args.from == "hf";
  const Result<const kinds::Kind*> kind = kinds::Recognise(args.path);
  return kind.ok() && *kind == &kinds::kHf;
}

artifact::InputHints HintsFor(const Args& args) {
  artifact::InputHints hints = HintsOf(args.layout);
  if (NamesOwnWeights(args)) hints.Set("weights", *args.weights);
  return hints;
}

Result<ops::VerifyReport> Judge(const Args& args, const ToolContext& context,
                                const artifact::RunOptions& run) {
  if (args.against || args.against_from)
    return BadUsage("--weights and --against are two different questions");
  if (args.from && *args.from != "rollout")
    return BadUsage("--from {}: with --weights PATH is a rollout bundle", *args.from);
  ops::FitnessRequest request{args.path, *args.weights, nullptr, HintsOf(args.weights_layout, ""),
                              run.poll};
  if (args.weights_from) request.weights_kind = kinds::KindFromName(*args.weights_from);
  NXDKIT_TRY(TakeHeld(context, *args.weights, request.weights_kind, request.hints));
  return ops::JudgeFitness(request);
}

// Refuses layout options for a side that is not read.
Status CheckSides(const Args& args) {
  const bool judges = args.weights && !NamesOwnWeights(args);
  struct Side {
    const artifact::Arguments& layout;
    const std::optional<std::string>& from;
    bool read;
    const char* prefix;
    const char* what;
  };
  const std::optional<std::string> none;
  const Side sides[] = {
      {args.layout, none, !judges, "", "a bundle that is judged has its own layout"},
      {args.against_layout, args.against_from, args.against.has_value(), "against-",
       "it applies with --against"},
      {args.weights_layout, args.weights_from, judges, "weights-", "it applies with --weights"}};
  for (const Side& side : sides) {
    if (side.read) continue;
    const std::optional<std::string> option = FirstOption(side.layout);
    if (!option && !side.from) continue;
    return BadUsage("--{}{} does not apply: {}", side.prefix,
                    option ? option->substr(2) : std::string("from"), side.what);
  }
  return OkStatus();
}

Status CheckEngineArgs(const Args& args) {
  const bool judges = args.weights_from || (args.weights && !NamesOwnWeights(args));
  if (args.engine && (args.against || args.against_from || judges))
    return BadUsage("--engine, --against and --weights are different questions");
  if (!args.engine && args.timeout)
    return BadUsage("--timeout applies to an engine; give --engine");
  if (!args.engine && !args.for_engine && args.dtype)
    return BadUsage("--dtype applies to an engine; give --engine or --for");
  return OkStatus();
}

Status CheckServingArgs(const Args& args) {
  if (!args.for_engine && (args.target || args.attention_dp))
    return BadUsage("{} applies to an engine; give --for vllm-neuron",
                    args.target ? "--target" : "--attention-dp");
  if (!args.for_engine) return OkStatus();
  if (args.engine || args.against || args.against_from || args.weights || args.weights_from)
    return BadUsage("--for, --engine, --against and --weights are different questions");
  if (args.from && *args.from != "hf")
    return BadUsage("--from {}: with --for PATH is a Hugging Face folder", *args.from)
        .hint("nxd-convert --to hf makes one");
  if (!args.layout.Number("tp")) return BadUsage("--for needs --tp, the engine's");
  return OkStatus();
}

Result<ToolAnswer> JudgeForEngine(const Args& args, ToolContext& context) {
  const Runner runner(context);
  ops::ServeRequest request;
  request.path = args.path;
  request.hints = HintsOf(args.layout);
  request.geometry = {*args.layout.Number("tp"), args.layout.Number("ep").value_or(1),
                      args.attention_dp.value_or(1)};
  for (const char* name : {"tp", "ep"}) request.hints.Reset(name);
  NXDKIT_TRY(kinds::CheckHints(kinds::kHf, args.path, request.hints));
  if (args.target == "trn3") request.target = vllm_neuron::Target::kTrn3;
  if (args.dtype && *args.dtype != "auto") request.dtype = DtypeFromTorchName(*args.dtype);
  request.values = args.values;
  request.run = runner.options();
  NXDKIT_ASSIGN(const ops::ServeReport report, ops::JudgeServing(request));
  context.Tell(report);
  return ServingAnswer(request, report, context);
}

std::string EngineSays(const ops::EngineCheck& check, const std::string& version) {
  return fmt::format("vLLM {}, tp {}{}, {}: {} of its ranks {} as predicted", version,
                     check.geometry.tp, check.geometry.expert_parallel ? " with whole experts" : "",
                     Name(check.expected.dtype), Counted(check.compared, "parameter"),
                     check.compared == 1 ? "is" : "are");
}

Result<ToolAnswer> AskEngine(const Args& args, ToolContext& context) {
  const Runner runner(context);
  ops::EngineRequest request;
  request.path = args.path;
  if (args.from) request.kind = kinds::KindFromName(*args.from);
  request.hints = HintsFor(args);
  NXDKIT_TRY(TakeHeld(context, args.path, request.kind, request.hints));
  if (args.dtype && *args.dtype != "auto") request.dtype = DtypeFromTorchName(*args.dtype);
  request.run = runner.options();
  vllm::Server server{*args.engine, static_cast<double>(args.timeout.value_or(kEngineSeconds)),
                      context.poll()};
  const Stopwatch watch;
  NXDKIT_ASSIGN(const std::string version, vllm::AskVersion(server));
  // The time limit covers both questions.
  server.seconds = std::max(0.1, server.seconds - watch.Seconds());
  NXDKIT_ASSIGN(const auto answered, vllm::AskChecksums(server));
  NXDKIT_ASSIGN(const ops::EngineCheck check, ops::CheckEngine(request, answered));
  context.Tell(check.expected);
  if (check.not_covered > 0)
    context.Warn(fmt::format(
        "{} of {} cannot be compared: a kernel of this engine has packed "
        "them and kept no "
        "bytes as they were loaded, as on CPUs",
        Grouped(check.not_covered), Counted(check.expected.params.size(), "parameter")));
  std::vector<std::string> checks;
  if (check.compared > 0) checks.push_back(EngineSays(check, version));
  Json fields = {{"path", args.path},
                 {"kind", check.expected.kind->name},
                 {"model_type", check.expected.model_type},
                 {"tensors", check.expected.params.size()},
                 {"parameters", check.expected.elements},
                 {"ranks", check.geometry.tp},
                 {"checks", checks},
                 {"findings", FindingsJson(check.findings)},
                 {"loader", Json()},
                 {"engine",
                  {{"url", *args.engine},
                   {"version", version},
                   {"tp", check.geometry.tp},
                   {"expert_parallel", check.geometry.expert_parallel},
                   {"dtype", Name(check.expected.dtype)},
                   {"compared", check.compared},
                   {"not_covered", check.not_covered}}}};
  return ToolAnswer{
      .text = FindingsText(checks, check.findings, *args.engine, "holds these weights"),
      .fields = std::move(fields),
      .findings = !check.findings.empty(),
      .brief = FindingsText({}, check.findings, *args.engine, "holds these weights")};
}

Result<ops::VerifyReport> Verify(const Args& args, const ToolContext& context) {
  const Runner runner(context);
  if (args.weights && !NamesOwnWeights(args)) return Judge(args, context, runner.options());
  ops::VerifyRequest request;
  request.path = args.path;
  if (args.from) request.kind = kinds::KindFromName(*args.from);
  request.hints = HintsFor(args);
  NXDKIT_TRY(TakeHeld(context, args.path, request.kind, request.hints));
  request.against = args.against;
  if (args.against_from) request.against_kind = kinds::KindFromName(*args.against_from);
  request.against_hints = HintsOf(args.against_layout, "--against-");
  if (args.against)
    NXDKIT_TRY(TakeHeld(context, *args.against, request.against_kind, request.against_hints));
  request.installations = InstalledHere();
  request.values = args.values;
  request.run = runner.options();
  return ops::Verify(request);
}

// Null for a bundle that is not meant for optimum-neuron.
Json LoaderJson(const ops::VerifyReport& report) {
  if (report.stamp.optimum.empty()) return Json();
  Json installations = Json::array();
  for (const ops::Loader& loader : report.loaders)
    installations.push_back({{"folder", loader.at.folder},
                             {"optimum_neuron_version", loader.at.optimum},
                             {"neuronxcc_version", loader.at.compiler},
                             {"accepts", loader.refusal.empty()},
                             {"refusal", loader.refusal}});
  return {{"optimum_neuron_version", report.stamp.optimum},
          {"neuronxcc_version", report.stamp.compiler},
          {"installations", installations}};
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  NXDKIT_TRY(CheckEngineArgs(args));
  NXDKIT_TRY(CheckServingArgs(args));
  NXDKIT_TRY(CheckSides(args));
  if (args.for_engine) return JudgeForEngine(args, context);
  if (args.engine) return AskEngine(args, context);
  NXDKIT_ASSIGN(const ops::VerifyReport report, Verify(args, context));
  context.Tell(report);
  context.DetailKind(args.path, report.kind, args.from.has_value());
  Json fields = {{"path", args.path},
                 {"kind", report.kind->name},
                 {"model_type", report.model_type},
                 {"tensors", report.tensors},
                 {"parameters", report.parameters},
                 {"ranks", report.ranks},
                 {"checks", report.checks},
                 {"findings", FindingsJson(report.findings)}};
  fields["loader"] = LoaderJson(report);
  if (args.against) fields["against"] = *args.against;
  if (args.weights) fields["weights"] = *args.weights;
  const char* good = args.weights && !NamesOwnWeights(args) ? "fits" : "good";
  const ComparedWith compared{args.against.value_or(""), report.differing};
  return ToolAnswer{.text = FindingsText(report.checks, report.findings, args.path, good, compared),
                    .fields = std::move(fields),
                    .findings = !report.findings.empty(),
                    .brief = FindingsText({}, report.findings, args.path, good, compared)};
}

}  // namespace

constinit const Command kCkptVerify = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace nxdkit::tool
