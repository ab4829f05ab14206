// ckpt-verify: is an artifact right, by itself and against another.
#include "formats/ops/verify/fitness.h"
#include "formats/ops/verify/verify.h"
#include "lib/base/errors.h"
#include "tools/cli/tool.h"
#include "tools/conversions/findings.h"
#include "tools/conversions/layout_options.h"
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
  LayoutArgs layout;
  LayoutArgs against_layout;
  LayoutArgs weights_layout;
};

const ToolInfo kInfo = {
    .name = "ckpt-verify",
    .summary = "proves that an artifact is right: structure, meaning, and equality with another",
    .details =
        "Structure: the rank grid, names, shapes, dtypes, zero padding, equal replicas, the tied "
        "pair, rank tensors; of a training tag the optimizer's state too.\n"
        "Meaning: on every rank and layer each query head sits with its own key head, and o_proj's "
        "columns match.\n"
        "With --against, every element is compared with another artifact of any layout.\n"
        "With --weights, a compiled bundle is judged: can it run these weights? Names, shapes, "
        "element types and settings are compared, the blob is read, and nothing is compiled.",
    .findings = "something is wrong, the two artifacts differ, or the weights do not fit",
    .common = kTakesJobs | kTakesMaxMemory,
    .examples = {{"ckpt-verify bundle", "is the bundle right by itself"},
                 {"ckpt-verify bundle --against Qwen3-4B", "and does it hold these weights"},
                 {"ckpt-verify compiled --weights Qwen3-4B", "can this bundle run these weights"},
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
            "say whether the bundle PATH can run these weights, and nothing else")
      .completes(Completes::kPath);
  table.Group("Formats");
  table.Choice("from", {"hf", "nxd", "rollout", "torch"}, &args.from,
               "format of PATH, where it cannot be recognised");
  table.Choice("against-from", {"hf", "nxd", "rollout", "torch"}, &args.against_from,
               "format of OTHER");
  table.Choice("weights-from", {"hf", "nxd", "rollout", "torch"}, &args.weights_from,
               "format of CKPT");
  AddLayoutOptions(table, args.layout, kNxdLayout, "Layout of PATH");
  AddLayoutOptions(table, args.against_layout, kNxdLayout, "Layout of OTHER", "against-");
  AddLayoutOptions(table, args.weights_layout, kNxdLayout, "Layout of CKPT", "weights-");
}

Result<ops::VerifyReport> Judge(const Args& args, const ops::RunOptions& run) {
  if (args.against || args.against_from)
    return BadUsage("--weights and --against are two different questions");
  if (args.from && *args.from != "rollout")
    return BadUsage("--from {}: with --weights PATH is a rollout bundle", *args.from);
  ops::FitnessRequest request{args.path, *args.weights, {}, HintsOf(args.weights_layout), run.poll};
  if (args.weights_from) request.weights_kind = ops::KindFromName(*args.weights_from);
  return ops::JudgeFitness(request);
}

Result<ops::VerifyReport> Verify(const Args& args, const ToolContext& context) {
  const Runner runner(context);
  if (args.weights) return Judge(args, runner.options());
  ops::VerifyRequest request;
  request.path = args.path;
  if (args.from) request.kind = ops::KindFromName(*args.from);
  request.hints = HintsOf(args.layout);
  request.against = args.against;
  if (args.against_from) request.against_kind = ops::KindFromName(*args.against_from);
  request.against_hints = HintsOf(args.against_layout);
  request.installations = InstalledHere();
  request.run = runner.options();
  return ops::Verify(request);
}

// Null of what no optimum-neuron is to load.
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
  NXDKIT_ASSIGN(const ops::VerifyReport report, Verify(args, context));
  for (const std::string& warning : report.warnings) context.Warn(warning);
  Json fields = {{"path", args.path},
                 {"kind", ops::KindName(report.kind)},
                 {"model_type", report.model_type},
                 {"tensors", report.tensors},
                 {"parameters", report.parameters},
                 {"ranks", report.ranks},
                 {"checks", report.checks},
                 {"findings", FindingsJson(report.findings)}};
  fields["loader"] = LoaderJson(report);
  if (args.against) fields["against"] = *args.against;
  if (args.weights) fields["weights"] = *args.weights;
  const char* good = args.weights ? "fits" : "good";
  return ToolAnswer{FindingsText(report.checks, report.findings, args.path, good),
                    std::move(fields), !report.findings.empty()};
}

}  // namespace
}  // namespace nxdkit::tool

int main(int argc, char** argv) {
  return nxdkit::tool::RunTool<nxdkit::tool::Args>(argc, argv, nxdkit::tool::kInfo,
                                                   nxdkit::tool::AddOptions, nxdkit::tool::Run);
}
