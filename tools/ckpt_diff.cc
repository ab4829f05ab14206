// ckpt-diff: by how much two models differ, whatever their layouts.
#include <fmt/core.h>

#include <cmath>

#include "formats/kinds/open.h"
#include "formats/ops/diff/diff.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "tools/cli/tool.h"
#include "tools/commands.h"
#include "tools/conversions/kind_options.h"
#include "tools/conversions/sides.h"

namespace nxdkit::tool {
namespace {

struct Args {
  std::string a;
  std::string b;
  std::optional<int> max_ulp;
  std::optional<std::string> atol;
  std::optional<std::string> rtol;
  std::optional<int> top;
  bool optimizer = false;
  std::string a_from;
  std::string b_from;
  artifact::Arguments a_layout;
  artifact::Arguments b_layout;
};

constexpr size_t kShownTensors = 10;  // without --top and --json

const ToolInfo kInfo = {
    .name = "ckpt-diff",
    .summary = "measures the difference of two artifacts' weights, in any layouts",
    .details =
        "Prints, for each parameter, the changed elements, the largest and mean absolute and "
        "relative error, and the units in the last place (ulps), worst parameter first.\n"
        "Without limits, any different bit counts; with limits, any element that exceeds one.",
    .findings = "the weights differ, or exceed the given limits",
    .common = kTakesJobs | kTakesMaxMemory,
    .examples = {{"ckpt-diff model shards", "check that the weights are equal"},
                 {"ckpt-diff --max-ulp 1 model-f32 model-bf16",
                  "check that one is the other, rounded"},
                 {"ckpt-diff --optimizer checkpoints/step_100 titan/step-100",
                  "compare training state in two formats"},
                 {"ckpt-diff --atol 1e-3 --rtol 1e-2 --top 3 step_0 step_100",
                  "show the three parameters that moved most"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Input");
  table.Positional("A", &args.a, "first folder or file");
  table.Positional("B", &args.b, "second folder or file");
  table.Choice("a-from", KindNames({"delta"}), &args.a_from, "format of A; recognised by default");
  table.Choice("b-from", KindNames({"delta"}), &args.b_from, "format of B; recognised by default");
  table.Group("Comparison");
  table.Flag("optimizer", &args.optimizer,
             "compare the optimizer's state too, and master weights instead of weights");
  table.Integer("max-ulp", "N", &args.max_ulp, {0, std::numeric_limits<int>::max()},
                "allow a difference of N units in the last place");
  table.Text("atol", "X", &args.atol, "allow an absolute difference of X, in addition to --rtol");
  table.Text("rtol", "X", &args.rtol, "allow a difference of X times the larger value");
  table.Group("Output");
  table.Integer("top", "N", &args.top, {0, std::numeric_limits<int>::max()},
                "print only the N worst parameters; 0 prints none");
  AddKindOptions(table, args.a_layout, OfReader(), "Layout of A", "a-");
  AddKindOptions(table, args.b_layout, OfReader(), "Layout of B", "b-");
}

Result<std::optional<double>> ParseLimit(const char* option,
                                         const std::optional<std::string>& text) {
  if (!text) return std::optional<double>();
  const std::optional<double> value = ParseNumber<double>(*text);
  if (value && std::isfinite(*value) && *value >= 0) return value;
  return BadUsage("{}: found \"{}\", expected a number from 0 on", option, *text);
}

Result<ops::DiffLimits> LimitsOf(const Args& args) {
  ops::DiffLimits limits;
  if (args.max_ulp) limits.max_ulp = static_cast<uint64_t>(*args.max_ulp);
  NXDKIT_ASSIGN(limits.atol, ParseLimit("--atol", args.atol));
  NXDKIT_ASSIGN(limits.rtol, ParseLimit("--rtol", args.rtol));
  return limits;
}

// --- for people

double Mean(double sum, const ops::DiffTally& tally) {
  const uint64_t count = tally.elements - tally.nan - tally.infinite;
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

std::string NumberText(double value) { return fmt::format("{:.3g}", value); }

std::string MaxAbsText(const ops::DiffTally& tally) {
  return tally.nan + tally.infinite > 0 ? "inf" : NumberText(tally.max_abs);
}

std::string BucketText(size_t bucket) {
  if (bucket <= 2) return std::to_string(bucket);
  return fmt::format("up to 2^{}", bucket - 1);
}

std::string Row(const ops::DiffTally& tally, std::string_view name) {
  return fmt::format("{:>12} {:>9} {:>9} {:>9} {:>9}  {}\n", tally.changed, MaxAbsText(tally),
                     NumberText(Mean(tally.sum_abs, tally)), NumberText(tally.max_rel),
                     NumberText(Mean(tally.sum_rel, tally)), name);
}

std::string WorstText(const ops::ParamDiff& param) {
  if (param.tally.worst < 0) return "";
  return fmt::format("{:12}   worst at {}: {} in A, {} in B\n", "", ShapeText(param.worst_index),
                     param.worst_a, param.worst_b);
}

std::string UlpText(const ops::DiffTally& tally) {
  std::string text;
  for (size_t i = 0; i < tally.ulps.size(); ++i)
    if (tally.ulps[i] > 0)
      text += fmt::format("{:>12} elements differ by {} ulp{}\n", tally.ulps[i], BucketText(i),
                          i == 1 ? "" : "s");
  if (tally.infinite > 0)
    text += fmt::format("{:>12} pairs with an infinite error\n", tally.infinite);
  if (tally.nan > 0) text += fmt::format("{:>12} pairs with a NaN\n", tally.nan);
  return text;
}

std::string Verdict(const ops::DiffReport& report, const ops::DiffLimits& limits) {
  const bool limited = limits.max_ulp || limits.atol || limits.rtol;
  if (report.total.changed == 0 && report.findings.empty())
    return fmt::format("equal: {} parameters, {} elements\n", report.params.size(),
                       report.total.elements);
  std::string text =
      fmt::format("{} of {} elements differ", report.total.changed, report.total.elements);
  if (limited) text += fmt::format(", {} beyond the limits", report.total.beyond);
  return text + "\n";
}

std::string ReportText(const ops::DiffReport& report, const Args& args,
                       const ops::DiffLimits& limits) {
  std::string text;
  for (const artifact::Finding& finding : report.findings)
    text += fmt::format("{}: {}\n", EscapeControl(finding.param), finding.message);
  size_t changed = 0;
  const size_t limit = args.top ? static_cast<size_t>(*args.top) : kShownTensors;
  std::string rows;
  for (const ops::ParamDiff& param : report.params) {
    if (param.tally.changed == 0) continue;
    if (changed++ >= limit) continue;
    rows += Row(param.tally, EscapeControl(param.name)) + WorstText(param);
  }
  if (changed > 0)
    text += fmt::format("{:>12} {:>9} {:>9} {:>9} {:>9}  {}\n", "changed", "max abs", "mean abs",
                        "max rel", "mean rel", "parameter") +
            rows;
  if (changed > limit)
    text += fmt::format("... and {} more (--top N lists more)\n", changed - limit);
  if (changed > 0)
    text += Row(report.total,
                fmt::format("in all ({} of {} parameters)", changed, report.params.size())) +
            UlpText(report.total);
  return text + Verdict(report, limits);
}

// --- for programs

Json TallyJson(const ops::DiffTally& tally) {
  Json histogram = Json::array();
  for (size_t i = 0; i < tally.ulps.size(); ++i) {
    if (tally.ulps[i] == 0) continue;
    const uint64_t most = i == 0 ? 0 : i >= 65 ? UINT64_MAX : uint64_t{1} << (i - 1);
    histogram.push_back({{"max_ulp", most}, {"count", tally.ulps[i]}});
  }
  return {{"elements", tally.elements},
          {"changed", tally.changed},
          {"beyond", tally.beyond},
          {"nan", tally.nan},
          {"infinite", tally.infinite},
          {"max_abs", tally.max_abs},
          {"mean_abs", Mean(tally.sum_abs, tally)},
          {"max_rel", tally.max_rel},
          {"mean_rel", Mean(tally.sum_rel, tally)},
          {"ulps", std::move(histogram)}};
}

Json ParamJson(const ops::ParamDiff& param) {
  Json json = {{"name", param.name},
               {"shape", param.shape},
               {"a_dtype", Name(param.a_dtype)},
               {"b_dtype", Name(param.b_dtype)}};
  json.update(TallyJson(param.tally));
  if (param.tally.worst >= 0)
    json["worst"] = {{"index", param.worst_index}, {"a", param.worst_a}, {"b", param.worst_b}};
  return json;
}

Json ReportJson(const ops::DiffReport& report, const Args& args) {
  Json params = Json::array();
  const size_t limit = args.top ? static_cast<size_t>(*args.top) : SIZE_MAX;
  for (const ops::ParamDiff& param : report.params)
    if (param.tally.changed > 0 && params.size() < limit) params.push_back(ParamJson(param));
  Json findings = Json::array();
  for (const artifact::Finding& finding : report.findings)
    findings.push_back(
        {{"check", finding.check}, {"parameter", finding.param}, {"message", finding.message}});
  return {{"a", args.a},
          {"b", args.b},
          {"a_kind", report.a_kind->name},
          {"b_kind", report.b_kind->name},
          {"compared", report.params.size()},
          {"total", TallyJson(report.total)},
          {"tensors", std::move(params)},
          {"findings", std::move(findings)}};
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  ops::DiffRequest request;
  NXDKIT_ASSIGN(request.limits, LimitsOf(args));
  request.optimizer = args.optimizer;
  request.a = {args.a, kinds::KindFromName(args.a_from), HintsOf(args.a_layout, "--a-")};
  request.b = {args.b, kinds::KindFromName(args.b_from), HintsOf(args.b_layout, "--b-")};
  for (ops::DiffSide* side : {&request.a, &request.b})
    NXDKIT_TRY(TakeHeld(context, side->path, side->kind, side->hints));
  const Runner runner(context);
  request.run = runner.options();
  NXDKIT_ASSIGN(const ops::DiffReport report, ops::Diff(request));
  context.Tell(report);
  return ToolAnswer{ReportText(report, args, request.limits), ReportJson(report, args),
                    report.differs()};
}

}  // namespace

constinit const Command kCkptDiff = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace nxdkit::tool
