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
    .summary = "proves that an artifact is right: structure, meaning, and equality with another",
    .details =
        "Structure: the rank grid, names, shapes, dtypes, zero padding, equal replicas, the tied "
        "pair, rank tensors; of a training tag the optimizer's state too.\n"
        "Values: no NaN, no infinity, and no norm or matrix of nothing but zeros.\n"
        "Meaning: on every rank and layer each query head sits with its own key head, and o_proj's "
        "columns match.\n"
        "With --against, every element is compared with another artifact of any layout.\n"
        "With --weights, a compiled bundle is judged: can it run these weights? Names, shapes, "
        "element types and settings are compared, the blob is read, and nothing is compiled.\n"
        "With --engine, a running vLLM server is asked for the digest of every parameter as each "
        "of "
        "its ranks holds it, and they are compared with what it should have made of PATH.\n"
        "With --for, a Hugging Face folder is judged: what would the engine's loader make of it, "
        "parameter by parameter? By rules derived from its sources, not run.",
    .findings =
        "something is wrong, the two artifacts differ, the weights do not fit, or an engine "
        "holds others or would load something else",
    .common = kTakesJobs | kTakesMaxMemory,
    .examples = {{"ckpt-verify bundle", "is the bundle right by itself"},
                 {"ckpt-verify bundle --against Qwen3-4B", "and does it hold these weights"},
                 {"ckpt-verify compiled --weights Qwen3-4B", "can this bundle run these weights"},
                 {"ckpt-verify Qwen3-4B --engine http://127.0.0.1:8000",
                  "does this server hold these weights"},
                 {"ckpt-verify Qwen3-4B --for vllm-neuron --tp 4 --target trn2",
                  "would this engine serve the folder"},
                 {"ckpt-verify shards --config config.json --hw trn2 --kv-multiplier 2",
                  "a set that carries no record of its layout"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Arguments");
  table.Positional("PATH", &args.path, "what to verify: a folder or a file");
  table.Group("What to compare with");
  table.Text("against", "OTHER", &args.against, "compare every element with this artifact")
      .completes(Completes::kPath);
  table
      .Text("weights", "CKPT", &args.weights,
            "say whether the bundle PATH can run these weights, and nothing else; of a Hugging "
            "Face folder with several sets of weights, the file or index that counts")
      .completes(Completes::kPath);
  table.Text("engine", "URL", &args.engine,
             "ask a vLLM server, such as http://HOST:PORT, which weights its ranks hold");
  table
      .Choice("dtype", {"auto", "bf16", "f16", "f32"}, &args.dtype,
              "with --engine or --for: the engine's element type")
      .default_text("auto");
  table
      .Integer("timeout", "SECONDS", &args.timeout, kPositive,
               "with --engine: how long to wait for an answer")
      .default_text(std::to_string(kEngineSeconds));
  table.Choice("for", {"vllm-neuron"}, &args.for_engine,
               "say what this engine's loader would make of the Hugging Face folder PATH; --tp and "
               "--ep are then the engine's");
  table.Choice("target", {"trn2", "trn3"}, &args.target, "with --for: the chip")
      .default_text("trn2");
  table
      .Integer("attention-dp", "A", &args.attention_dp, kPositive,
               "with --for: the attention data parallel degree")
      .default_text("1");
  table.Toggle("values", &args.values,
               "read every element and look for NaNs, infinities and parameters of zeros alone");
  table.Group("Formats");
  table.Choice("from", KindNames({"delta"}), &args.from,
               "format of PATH, where it cannot be recognised");
  table.Choice("against-from", KindNames({"delta"}), &args.against_from, "format of OTHER");
  table.Choice("weights-from", KindNames({"delta"}), &args.weights_from, "format of CKPT");
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
  return ToolAnswer{FindingsText(checks, check.findings, *args.engine, "holds these weights"),
                    std::move(fields), !check.findings.empty()};
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
  return ToolAnswer{FindingsText(report.checks, report.findings, args.path, good, compared),
                    std::move(fields), !report.findings.empty()};
}

}  // namespace

constinit const Command kCkptVerify = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace nxdkit::tool
