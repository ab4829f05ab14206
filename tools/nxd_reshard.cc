// nxd-reshard: an NxD tag, model and optimizer state, to another parallel layout.
#include <fmt/format.h>

#include "formats/dcp/folder.h"
#include "formats/ops/convert/convert.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "tools/cli/tool.h"
#include "tools/conversions/convert_report.h"
#include "tools/conversions/launcher.h"
#include "tools/conversions/layout_options.h"
#include "tools/conversions/sides.h"

namespace nxdkit::tool {
namespace {

using ops::Kind;

struct Args {
  std::string input;
  std::string output;
  LayoutArgs layout;
  std::optional<int> dp;
  std::optional<std::string> param_order;
  bool optimizer = true;
  std::optional<std::string> explain;
  bool verify = false;
  bool sync = true;
  std::optional<std::string> part;
};

const ToolInfo kInfo = {
    .name = "nxd-reshard",
    .summary = "reshards an NxD checkpoint, model and optimizer state, so that training can go on",
    .details =
        "Reads the NxD tag INPUT and writes the tag OUTPUT for other tensor, pipeline and data "
        "parallel sizes, straight from stored bytes to stored bytes: memory stays under "
        "--max-memory whatever the model. OUTPUT appears whole or not at all.\n"
        "Layout options describe OUTPUT; what is not given stays as it is in INPUT.\n"
        "An optimizer's files know parameters by number only. The known orders are tried against "
        "the shapes; what cannot be mapped with certainty is refused.",
    .findings = "--verify found a difference",
    .common = kTakesJobs | kTakesMaxMemory | kTakesDryRun | kTakesForce | kTakesResume,
    .examples = {{"nxd-reshard --tp 4 --pp 2 --dp 2 checkpoints/step_100 resharded/step_100",
                  "for 16 ranks, optimizer state included"},
                 {"nxd-reshard --tp 16 --kv-multiplier 2 --hw trn2 checkpoints resharded/step_100",
                  "the newest tag, with every key head stored twice"},
                 {"nxd-reshard --dp 8 --verify checkpoints/step_100 resharded/step_100",
                  "only the optimizer's shards change"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Arguments");
  table
      .Positional("INPUT", &args.input,
                  "the NxD tag, or a root with --tag or its newest one; or a torch distributed "
                  "checkpoint")
      .completes(Completes::kFolder);
  table.Positional("OUTPUT", &args.output, "the tag folder to write").completes(Completes::kFolder);
  AddLayoutOptions(table, args.layout,
                   kNxdLayout | kXserLayout | kInstanceLayout | kNodesLayout | kFromLayout,
                   "Layout");
  table.Integer("dp,data-parallel-size", "N", &args.dp, kPositive,
                "data parallel size, over which ZeRO-1 shards the optimizer's state");
  table.Group("Optimizer");
  table.Toggle("optimizer", &args.optimizer, "reshard the optimizer's state too");
  table.Choice("param-order", {"norms", "biases", "one"}, &args.param_order,
               "what makes the second group of parameters, where the shapes do not tell");
  table.Group("What to do");
  table.Text("explain", "TENSOR", &args.explain,
             "print where every byte of this output tensor comes from, and write nothing");
  table.Flag("verify", &args.verify,
             "read the output again and compare it with INPUT before it is published");
  table.Toggle("sync", &args.sync, "have the output on the disk before it is published");
  AddPartOption(table, &args.part);
}

Json OptimizerJson(const std::optional<ops::OptimizerReport>& optimizer) {
  if (!optimizer) return nullptr;
  return {{"input_style", nxd::OptimizerStyleName(optimizer->from)},
          {"output_style", nxd::OptimizerStyleName(optimizer->to)},
          {"input_dp", optimizer->from_dp},
          {"output_dp", optimizer->to_dp},
          {"param_order", nxd::GroupRuleName(optimizer->order)},
          {"entries", optimizer->entries}};
}

Json ReportJson(const ops::ConvertReport& report, const ops::ConvertRequest& request,
                double seconds, bool dry_run) {
  Json json = WithKeys({{"input", request.input},
                        {"output", request.output},
                        {"tp", report.nxd.tp},
                        {"pp", report.nxd.pp},
                        {"vpp", report.nxd.vpp},
                        {"kv_multiplier", report.nxd.kv_multiplier},
                        {"qkv", nxd::QkvStyleName(report.nxd.qkv)},
                        {"xser", report.xser},
                        {"optimizer", OptimizerJson(report.optimizer)}},
                       PlannedJson(report, seconds, dry_run));
  if (report.part) json["part"] = PartJson(*report.part);
  return json;
}

std::string OptimizerText(const ops::OptimizerReport& optimizer) {
  const auto side = [](nxd::OptimizerStyle style, int dp) {
    return style == nxd::OptimizerStyle::kZero1 ? fmt::format("ZeRO-1 dp {}", dp)
                                                : std::string(nxd::OptimizerStyleName(style));
  };
  return fmt::format("optimizer: {} to {}; parameter order \"{}\"; {}\n",
                     side(optimizer.from, optimizer.from_dp), side(optimizer.to, optimizer.to_dp),
                     nxd::GroupRuleName(optimizer.order),
                     EscapeControl(fmt::format("{}", fmt::join(optimizer.entries, ", "))));
}

std::string ReportText(const ops::ConvertReport& report, const ops::ConvertRequest& request,
                       double seconds, bool dry_run) {
  std::string text = WroteText(request.output, report, dry_run) +
                     fmt::format("tp {} pp {}, ", report.nxd.tp, report.nxd.pp) +
                     CountsText(report);
  if (report.optimizer) text += OptimizerText(*report.optimizer);
  if (report.part) text += PartText(*report.part, dry_run);
  return text + CostText(report, report.output_bytes, seconds, dry_run) + NotesText(report);
}

Result<ops::ConvertRequest> RequestOf(const Args& args) {
  ops::ConvertRequest request;
  // What was taken to PyTorch can be taken back.
  request.from = dcp::LooksLikeFolder(args.input) ? Kind::kDcp : Kind::kNxd;
  request.to = Kind::kNxd;
  request.input = args.input;
  request.output = args.output;
  NXDKIT_ASSIGN(Sides sides, SidesOf(args.layout, request.from, Kind::kNxd));
  request.hints = std::move(sides.input);
  request.hints.optimizer = args.optimizer;
  if (args.param_order) request.hints.param_order = nxd::GroupRuleFromName(*args.param_order);
  if (args.param_order && !args.optimizer)
    return BadUsage("--param-order does not apply with --no-optimizer");
  if (args.dp && !args.optimizer)
    return BadUsage(
        "--dp does not apply with --no-optimizer: only the optimizer's state is sharded over data "
        "parallel ranks");
  request.options = std::move(sides.output);
  SetInstance(args.layout, sides, request);
  request.options.dp = args.dp;
  request.options.training_tag = true;
  request.verify = args.verify;
  request.sync = args.sync;
  NXDKIT_TRY(TakePart(args.part, request));
  return request;
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  NXDKIT_ASSIGN(ops::ConvertRequest request, RequestOf(args));
  return AnswerConvert(request, args.explain, {ReportText, ReportJson}, context);
}

}  // namespace
}  // namespace nxdkit::tool

int main(int argc, char** argv) {
  return nxdkit::tool::RunTool<nxdkit::tool::Args>(argc, argv, nxdkit::tool::kInfo,
                                                   nxdkit::tool::AddOptions, nxdkit::tool::Run);
}
