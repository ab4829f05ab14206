// nxd-reshard: reshards an NxD tag, model and optimizer state, to another parallel layout.
#include <fmt/format.h>

#include "formats/dcp/folder.h"
#include "formats/kinds/dcp/decide_dcp.h"
#include "formats/kinds/fsdp/decide_fsdp.h"
#include "formats/kinds/nxd/decide_nxd.h"
#include "formats/kinds/open.h"
#include "formats/ops/convert/convert.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "tools/cli/tool.h"
#include "tools/commands.h"
#include "tools/conversions/convert_report.h"
#include "tools/conversions/kind_options.h"
#include "tools/conversions/launcher.h"
#include "tools/conversions/sides.h"

namespace nxdkit::tool {
namespace {

using kinds::Kind;

struct Args {
  std::string input;
  std::string output;
  std::optional<std::string> from;
  std::string to = "nxd";
  artifact::Arguments layout;
  std::optional<int> dp;
  std::optional<std::string> param_order;
  std::optional<bool> optimizer;
  ExplainArgs explain;
  bool verify = false;
  bool sync = true;
  std::optional<std::string> part;
};

const ToolInfo kInfo = {
    .name = "nxd-reshard",
    .summary = "reshards an NxD training checkpoint, with its optimizer state",
    .details =
        "Reads the NxD tag INPUT and writes the tag OUTPUT for other tensor, pipeline and data "
        "parallel sizes, in bounded memory. OUTPUT appears complete or not at all.\n"
        "Layout options describe OUTPUT; the others stay as in INPUT.\n"
        "--to dcp and --to fsdp cut a torch distributed checkpoint, or the rank files of an FSDP "
        "run, for the ranks of --mesh.\n"
        "An optimizer's files number parameters without naming them. State that no known order "
        "maps "
        "with certainty is refused.",
    .findings = "--verify found a difference",
    .common = kTakesJobs | kTakesMaxMemory | kTakesDryRun | kTakesForce | kTakesResume,
    .essentials = {"tp", "pp", "dp", "kv-multiplier", "to", "mesh", "dry-run", "force"},
    .examples = {{"nxd-reshard --tp 4 --pp 2 --dp 2 checkpoints/step_100 resharded/step_100",
                  "reshard for 16 ranks, with the optimizer state"},
                 {"nxd-reshard --tp 16 --kv-multiplier 2 --hw trn2 checkpoints resharded/step_100",
                  "reshard the newest tag, with two copies of every key head"},
                 {"nxd-reshard --dp 8 --verify checkpoints/step_100 resharded/step_100",
                  "change only the optimizer's shards"},
                 {"nxd-reshard --to dcp --mesh dp=4,tp=2 run/step-100 recut/step-100",
                  "cut a torch distributed checkpoint into 8 files"},
                 {"nxd-reshard --to fsdp --mesh dp=24 checkpoints/run recut",
                  "rewrite the newest step of a run of EasyR1 or verl for 24 GPUs"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Input and output");
  table
      .Positional("INPUT", &args.input,
                  "NxD tag or root, torch distributed checkpoint, or FSDP run")
      .completes(Completes::kFolder)
      .required(false);  // --explain may have taken it
  table.Positional("OUTPUT", &args.output, "folder to write")
      .completes(Completes::kFolder)
      .required(false);  // with --explain

  table.Choice("from", {"nxd", "dcp", "fsdp"}, &args.from,
               "format of INPUT; recognised by default");
  table.Choice("to", {"nxd", "dcp", "fsdp"}, &args.to, "format of OUTPUT");
  constexpr unsigned kBoth = kinds::kAsSource | kinds::kAsTarget;
  AddKindOptions(table, args.layout,
                 {{{&kinds::kNxd, kBoth}, {&kinds::kDcp, kBoth}, {&kinds::kFsdp, kBoth}},
                  {"config", "family", "lora-alpha"}},
                 "Layout");
  table.Group("Optimizer state");
  table.Toggle("optimizer", &args.optimizer, "reshard the optimizer's state too")
      .default_text("on if INPUT has it");
  table.Integer("dp,data-parallel-size", "N", &args.dp, kPositive,
                "data parallel ranks over which ZeRO-1 shards the optimizer's state");
  table.Choice("param-order", {"norms", "biases", "one"}, &args.param_order,
               "order of the optimizer's parameters, if several fit the shapes");
  table.Group("Output");
  AddExplainOptions(table, args.explain);
  table.Flag("verify", &args.verify, "compare the output with INPUT before it is published");
  table.Toggle("sync", &args.sync, "write the output to the disk before it is published");
  AddPartOption(table, &args.part);
}

// Whether one of the two identifies parameters by number.
bool HasOrder(const ops::OptimizerReport& optimizer) {
  return optimizer.from != nxd::OptimizerStyle::kNamed ||
         optimizer.to != nxd::OptimizerStyle::kNamed;
}

Json OptimizerJson(const std::optional<ops::OptimizerReport>& optimizer) {
  if (!optimizer) return nullptr;
  return {{"input_style", nxd::OptimizerStyleName(optimizer->from)},
          {"output_style", nxd::OptimizerStyleName(optimizer->to)},
          {"input_dp", optimizer->from_dp},
          {"output_dp", optimizer->to_dp},
          {"param_order",
           HasOrder(*optimizer) ? Json(nxd::GroupRuleName(optimizer->order)) : Json(nullptr)},
          {"entries", optimizer->entries}};
}

Json LayoutJson(const ops::ConvertReport& report, const ops::ConvertRequest& request) {
  if (request.to == &kinds::kDcp) {
    const dcp::Mesh& mesh = static_cast<const kinds::DcpOutput&>(*report.target).mesh;
    return {{"mesh", {{"dp", mesh.dp}, {"tp", mesh.tp}}}};
  }
  if (request.to == &kinds::kFsdp)
    return {
        {"mesh", {{"dp", static_cast<const kinds::FsdpOutput&>(*report.target).world}, {"tp", 1}}}};
  const auto& tag = static_cast<const kinds::NxdOutput&>(*report.target);
  return {{"tp", tag.geometry.tp},
          {"pp", tag.geometry.pp},
          {"vpp", tag.geometry.vpp},
          {"kv_multiplier", tag.geometry.kv_multiplier},
          {"qkv", nxd::QkvStyleName(tag.geometry.qkv)},
          {"xser", tag.xser}};
}

Json ReportJson(const ops::ConvertReport& report, const ops::ConvertRequest& request,
                double seconds, bool dry_run) {
  Json json = WithKeys({{"input", request.input},
                        {"output", request.output},
                        {"to", request.to->name},
                        {"optimizer", OptimizerJson(report.optimizer)}},
                       LayoutJson(report, request));
  json = WithKeys(std::move(json), PlannedJson(report, seconds, dry_run));
  if (report.part) json["part"] = PartJson(*report.part);
  return json;
}

std::string OptimizerText(const ops::OptimizerReport& optimizer,
                          const ops::ConvertRequest& request) {
  const auto side = [](const kinds::Kind& kind, nxd::OptimizerStyle style, int dp) {
    if (style == nxd::OptimizerStyle::kNamed) return std::string(kind.name);
    return style == nxd::OptimizerStyle::kZero1 ? fmt::format("ZeRO-1 dp {}", dp)
                                                : std::string(nxd::OptimizerStyleName(style));
  };
  const std::string order = HasOrder(optimizer) ? fmt::format("parameter order \"{}\"; ",
                                                              nxd::GroupRuleName(optimizer.order))
                                                : "";
  return fmt::format("optimizer: {} to {}; {}{}\n",
                     side(*request.from, optimizer.from, optimizer.from_dp),
                     side(*request.to, optimizer.to, optimizer.to_dp), order,
                     EscapeControl(fmt::format("{}", fmt::join(optimizer.entries, ", "))));
}

std::string LayoutText(const ops::ConvertReport& report, const ops::ConvertRequest& request) {
  if (request.to == &kinds::kDcp) {
    const dcp::Mesh& mesh = static_cast<const kinds::DcpOutput&>(*report.target).mesh;
    return fmt::format("cut over dp {} tp {}, ", mesh.dp, mesh.tp);
  }
  if (request.to == &kinds::kFsdp)
    return fmt::format(
        "for {}, ", Counted(static_cast<const kinds::FsdpOutput&>(*report.target).world, "rank"));
  const nxd::Geometry& geometry = static_cast<const kinds::NxdOutput&>(*report.target).geometry;
  return fmt::format("tp {} pp {}, ", geometry.tp, geometry.pp);
}

std::string ReportText(const ops::ConvertReport& report, const ops::ConvertRequest& request,
                       double seconds, bool dry_run) {
  std::string text =
      WroteText(request.output, report, dry_run) + LayoutText(report, request) + CountsText(report);
  if (report.optimizer) text += OptimizerText(*report.optimizer, request);
  if (report.part) text += PartText(*report.part, dry_run);
  return text + CostText(report, report.output_bytes, seconds, dry_run) + NotesText(report);
}

// With --to dcp INPUT is a checkpoint unless it is a tag, even if nothing in the folder shows it:
// only a checkpoint can be cut anew.
Result<const Kind*> SourceOf(const std::string& input, const Kind* to) {
  const Result<const Kind*> known = kinds::Recognise(input);
  if (known.ok() && *known == &kinds::kFsdp) return &kinds::kFsdp;
  NXDKIT_ASSIGN(const bool is_dcp, dcp::LooksLikeFolder(input));
  if (is_dcp) return &kinds::kDcp;
  NXDKIT_ASSIGN(const bool there, IsThere(input));
  if (to != &kinds::kDcp || !there) return &kinds::kNxd;
  const Result<const Kind*> found = kinds::Recognise(input);
  if (!found.ok() && found.error().code() == Errc::kIo) return found.error();
  return found.ok() && *found == &kinds::kNxd ? &kinds::kNxd : &kinds::kDcp;
}

// Allows tag to tag, checkpoint to checkpoint, and checkpoint back to tag.
Status CheckFormats(const Args& args, const Kind* from, const Kind* to) {
  const bool is_tag = from == &kinds::kNxd;
  NXDKIT_ASSIGN(const bool there, IsThere(args.input));
  if (is_tag && to != &kinds::kNxd && !there)
    return NotFound("no such file or folder").in(args.input);
  if (is_tag && to != &kinds::kNxd)
    return BadUsage("--to {} cuts {} anew, and INPUT is an NxD tag", to->name, to->called)
        .in(args.input)
        .hint(fmt::format("nxd-convert --from nxd --to {} makes one of it, with the optimizer's "
                          "state",
                          to->name));
  if (to != &kinds::kNxd && args.dp)
    return BadUsage("--dp shards the state of an NxD tag; --mesh cuts {}", to->called);
  if (to != &kinds::kNxd && args.param_order)
    return BadUsage("--param-order does not apply to {}", to->called);
  return OkStatus();
}

Status TakeState(const Args& args, ops::ConvertRequest& request) {
  const bool optimizer = args.optimizer.value_or(true);
  if (args.param_order && !optimizer)
    return BadUsage("--param-order does not apply with --no-optimizer");
  if (args.dp && !optimizer)
    return BadUsage(
        "--dp does not apply with --no-optimizer: only the optimizer's state is sharded over data "
        "parallel ranks");
  request.hints.optimizer = optimizer;
  request.state_required = args.optimizer.value_or(false) || args.dp || args.param_order;
  request.hints.Set("param-order", args.param_order);
  request.options.Set("dp", args.dp);
  if (request.to == &kinds::kNxd) request.options.Set("training-tag", true);
  return OkStatus();
}

Result<ops::ConvertRequest> RequestOf(const Args& args, const ToolContext& context) {
  ops::ConvertRequest request;
  request.to = kinds::KindFromName(args.to);
  const HeldSource* const held = context.host().Held(args.input);
  NXDKIT_ASSIGN(request.from, args.from ? Result<const Kind*>(kinds::KindFromName(*args.from))
                              : held    ? Result<const Kind*>(held->kind)
                                        : SourceOf(args.input, request.to));
  request.input = args.input;
  request.output = args.output;
  NXDKIT_TRY(CheckFormats(args, request.from, request.to));
  NXDKIT_ASSIGN(Sides sides, SidesOf(args.layout, *request.from, *request.to, context));
  SetSides(std::move(sides), request);
  NXDKIT_TRY(TakeHeld(context, args.input, request.from, request.hints));
  NXDKIT_TRY(TakeState(args, request));
  request.verify = args.verify;
  request.sync = args.sync;
  NXDKIT_TRY(TakePart(args.part, request));
  return request;
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  Args settled = args;
  NXDKIT_TRY(SettleExplain(settled.explain, settled.input, settled.output));
  if (settled.input.empty() || settled.output.empty())
    return BadUsage("{} is missing", settled.input.empty() ? "INPUT" : "OUTPUT")
        .hint("--help shows the usage");
  NXDKIT_ASSIGN(ops::ConvertRequest request, RequestOf(settled, context));
  return AnswerConvert(request, settled.explain, {ReportText, ReportJson}, context);
}

}  // namespace

constinit const Command kNxdReshard = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace nxdkit::tool
