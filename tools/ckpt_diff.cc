// ckpt-diff: by how much two models differ, whatever their layouts.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "formats/kinds/facts.h"
#include "formats/kinds/open.h"
#include "formats/ops/diff/diff.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "tools/cli/terminal.h"
#include "tools/cli/tool.h"
#include "tools/commands.h"
#include "tools/conversions/kind_options.h"
#include "tools/conversions/sides.h"
#include "tools/pictures/diff_page.h"
#include "tools/pictures/layer_picture.h"
#include "tools/pictures/page_file.h"

namespace nxdkit::tool {
namespace {

struct Args {
  std::string a;
  std::string b;
  std::vector<std::string> later;
  std::optional<std::string> html;
  std::optional<int> max_ulp;
  std::optional<std::string> atol;
  std::optional<std::string> rtol;
  std::optional<int> top;
  bool optimizer = false;
  std::string a_from;
  std::string b_from;
  artifact::Arguments a_layout;
  artifact::Arguments b_layout;

  std::vector<std::string> Paths() const {
    std::vector<std::string> paths = {a, b};
    paths.insert(paths.end(), later.begin(), later.end());
    return paths;
  }
};

constexpr size_t kShownTensors = 10;  // without --top and --json

const ToolInfo kInfo = {
    .name = "ckpt-diff",
    .summary = "measures the difference of two artifacts' weights, in any layouts",
    .details =
        "Prints, for each parameter, the changed elements, the largest and mean absolute and "
        "relative error, and the units in the last place (ulps), worst parameter first; and for "
        "each layer, the norm of the update against the norm of its weights.\n"
        "Without limits, any different bit counts; with limits, any element that exceeds one.\n"
        "With more than two artifacts, the steps of a run, it compares the first with the last, "
        "and each with the next.",
    .findings = "the weights differ, or exceed the given limits",
    .common = kTakesJobs | kTakesMaxMemory | kTakesForce,
    .usages = {"ckpt-diff [options] A B [C ...]"},
    .essentials = {"top", "atol", "rtol", "max-ulp", "html", "json"},
    .examples = {{"ckpt-diff model shards", "check that the weights are equal"},
                 {"ckpt-diff --max-ulp 1 model-f32 model-bf16",
                  "check that one is the other, rounded"},
                 {"ckpt-diff --optimizer checkpoints/step_100 titan/step-100",
                  "compare training state in two formats"},
                 {"ckpt-diff --atol 1e-3 --rtol 1e-2 --top 3 step_0 step_100",
                  "show the three parameters that moved most"},
                 {"ckpt-diff --html moved.html step_0 step_50 step_100",
                  "draw a heat map of a run, layer by module"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Input");
  table.Positional("A", &args.a, "first folder or file");
  table.Positional("B", &args.b, "second folder or file");
  table.Positionals("C", &args.later, "later steps, each compared with the one before it");
  table.Choice("a-from", KindNames({"delta"}), &args.a_from, "format of A; recognised by default");
  table.Choice("b-from", KindNames({"delta"}), &args.b_from,
               "format of B and of later steps; recognised by default");
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
  AddHtmlOption(table, &args.html,
                "also write a page for a browser: a heat map of the update, layer by module");
  AddKindOptions(table, args.a_layout, OfReader(), "Layout of A", "a-");
  AddKindOptions(table, args.b_layout, OfReader(), "Layout of B and of later steps", "b-");
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

// The table of parameters, in a terminal of `columns`; 0: names are never shortened.
class ParamTable {
 public:
  ParamTable(uint64_t most_changed, size_t columns)
      : counts_(std::max<size_t>(Grouped(most_changed).size(), 9)), columns_(columns) {}

  std::string Heading() const {
    return Line("changed", "max abs", "mean abs", "max rel", "mean rel", "parameter");
  }
  std::string Row(const ops::DiffTally& tally, const std::string& name) const {
    return Line(Grouped(tally.changed), MaxAbsText(tally), NumberText(Mean(tally.sum_abs, tally)),
                NumberText(tally.max_rel), NumberText(Mean(tally.sum_rel, tally)), name);
  }
  // The worst element below its parameter; "" when none differs.
  std::string Worst(const ops::ParamDiff& param) const {
    if (param.tally.worst < 0) return "";
    return fmt::format("{:{}}   worst at {}: {} in A, {} in B\n", "", counts_,
                       ShapeText(param.worst_index), param.worst_a, param.worst_b);
  }
  size_t counts() const { return counts_; }

 private:
  std::string Line(std::string_view changed, std::string_view max_abs, std::string_view mean_abs,
                   std::string_view max_rel, std::string_view mean_rel,
                   std::string_view name) const {
    const std::string numbers = fmt::format("{:>{}} {:>9} {:>9} {:>9} {:>9}  ", changed, counts_,
                                            max_abs, mean_abs, max_rel, mean_rel);
    constexpr size_t kLeastName = 20;
    const size_t room = std::max(columns_, numbers.size() + kLeastName) - numbers.size();
    return numbers + (columns_ > 0 ? ShortenStart(name, room) : std::string(name)) + "\n";
  }

  const size_t counts_;
  const size_t columns_;
};

std::string BucketText(size_t bucket) {
  if (bucket <= 1) return Counted(bucket, "ulp");
  return bucket == 2 ? "2 ulps" : fmt::format("up to 2^{} ulps", bucket - 1);
}

// The histogram in at most ten rows: of many powers of two, several to a row.
std::string UlpText(const ops::DiffTally& tally, size_t width) {
  constexpr size_t kMostRows = 10;
  size_t last = 0;
  for (size_t i = 0; i < tally.ulps.size(); ++i)
    if (tally.ulps[i] > 0) last = i;
  std::map<size_t, uint64_t> rows;  // by the last power of each
  for (size_t step = 1; rows.empty() || rows.size() > kMostRows; ++step) {
    rows.clear();
    for (size_t i = 0; i <= last; ++i)
      if (tally.ulps[i] > 0) rows[std::min((i + step - 1) / step * step, last)] += tally.ulps[i];
    if (tally.ulps[last] == 0) break;
  }
  const auto line = [&](uint64_t count, std::string_view what) {
    return fmt::format("{:>{}} {}\n", Grouped(count), width, what);
  };
  std::string text;
  for (const auto& [bucket, count] : rows)
    text += line(count, fmt::format("{} by {}", count == 1 ? "element differs" : "elements differ",
                                    BucketText(bucket)));
  if (tally.infinite > 0)
    text += line(tally.infinite,
                 fmt::format("{} with an infinite error", tally.infinite == 1 ? "pair" : "pairs"));
  if (tally.nan > 0)
    text += line(tally.nan, fmt::format("{} with a NaN", tally.nan == 1 ? "pair" : "pairs"));
  return text;
}

size_t ChangedParams(const ops::DiffReport& report) {
  const auto changed = [](const ops::ParamDiff& param) { return param.tally.changed > 0; };
  return static_cast<size_t>(std::ranges::count_if(report.params, changed));
}

std::string Verdict(const ops::DiffReport& report, const ops::DiffLimits& limits) {
  const bool limited = limits.max_ulp || limits.atol || limits.rtol;
  if (report.total.changed == 0 && report.findings.empty())
    return fmt::format("equal: {}, {}\n", Counted(report.params.size(), "parameter"),
                       Counted(report.total.elements, "element"));
  const size_t changed = ChangedParams(report);
  const std::string all = Counted(report.params.size(), "parameter");
  std::string text =
      fmt::format("{} {}, in {} of {}",
                  changed > 1 && changed == report.params.size() ? "all " + all
                                                                 : Grouped(changed) + " of " + all,
                  changed == 1 ? "differs" : "differ", Grouped(report.total.changed),
                  Counted(report.total.elements, "element"));
  if (limited) text += fmt::format(", {} beyond the limits", Grouped(report.total.beyond));
  return text + "\n";
}

std::string UpdateText(const ops::DiffReport& report) {
  const std::optional<double> relative = report.update.relative();
  return fmt::format("update: ||B - A|| / ||A|| = {} ({} / {})\n",
                     relative ? NumberText(*relative) : "-",
                     NumberText(report.update.norm_update()), NumberText(report.update.norm_a()));
}

// A row for each step: its number of changed elements, its update, and its two ends.
std::string StepsText(const std::vector<ops::DiffReport>& steps, const Args& args) {
  if (steps.empty()) return "";
  const std::vector<std::string> paths = args.Paths();
  size_t counts = 7;
  for (const ops::DiffReport& step : steps)
    counts = std::max(counts, Grouped(step.total.changed).size());
  const auto columns = static_cast<size_t>(StdoutColumns());
  const size_t used = counts + 13;
  std::string text = fmt::format("{:>{}}  {:>9}  step\n", "changed", counts, "update");
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::optional<double> relative = steps[i].update.relative();
    std::string name =
        fmt::format("{} -> {}", EscapeControl(paths[i]), EscapeControl(paths[i + 1]));
    if (!steps[i].findings.empty())
      name += fmt::format(" ({})", Counted(steps[i].findings.size(), "finding"));
    if (columns > 0) name = ShortenMiddle(name, std::max(columns, used + 20) - used);
    text += fmt::format("{:>{}}  {:>9}  {}\n", Grouped(steps[i].total.changed), counts,
                        relative ? NumberText(*relative) : "-", name);
  }
  return text;
}

std::string ReportText(const ops::DiffReport& report, const Args& args,
                       const ops::DiffLimits& limits) {
  std::string text = Verdict(report, limits);
  for (const artifact::Finding& finding : report.findings)
    text += fmt::format("{}: {}\n", EscapeControl(finding.param), finding.message);
  const size_t changed = ChangedParams(report);
  if (changed == 0) return text;
  const ParamTable table(report.total.changed, static_cast<size_t>(StdoutColumns()));
  const size_t limit = args.top ? static_cast<size_t>(*args.top) : kShownTensors;
  text += table.Heading();
  for (size_t i = 0; i < report.params.size() && i < limit; ++i) {
    const ops::ParamDiff& param = report.params[i];
    if (param.tally.changed > 0)
      text += table.Row(param.tally, EscapeControl(param.name)) + table.Worst(param);
  }
  if (changed > limit)
    text += fmt::format("... and {} more (--top N lists more)\n", Grouped(changed - limit));
  text += table.Row(report.total, "in all");
  text += UlpText(report.total, table.counts());
  return text + UpdateText(report) + LayersText(report.layers, PictureHere());
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

Json NormsJson(const ops::LayerMove& move) {
  return {{"norm_a", kinds::FiniteOrNull(move.norm_a())},
          {"norm_update", kinds::FiniteOrNull(move.norm_update())},
          {"relative_update", kinds::FiniteOrNull(move.relative())}};
}

Json LayersJson(const std::vector<ops::LayerMove>& layers) {
  Json json = Json::array();
  for (const ops::LayerMove& layer : layers) {
    json.push_back({{"name", layer.name},
                    {"layer", layer.layer ? Json(*layer.layer) : Json()},
                    {"parameters", layer.parameters},
                    {"elements", layer.elements},
                    {"changed", layer.changed}});
    json.back().update(NormsJson(layer));
  }
  return json;
}

Json ParamJson(const ops::ParamDiff& param) {
  Json json = {{"name", param.name},
               {"shape", param.shape},
               {"a_dtype", Name(param.a_dtype)},
               {"b_dtype", Name(param.b_dtype)}};
  json.update(TallyJson(param.tally));
  json.update(NormsJson({{}, {}, 1, param.tally.elements, param.tally.changed, param.squares}));
  if (param.tally.worst >= 0)
    json["worst"] = {{"index", param.worst_index}, {"a", param.worst_a}, {"b", param.worst_b}};
  return json;
}

Json FindingsJson(const std::vector<artifact::Finding>& findings) {
  Json json = Json::array();
  for (const artifact::Finding& finding : findings)
    json.push_back(
        {{"check", finding.check}, {"parameter", finding.param}, {"message", finding.message}});
  return json;
}

Json StepsJson(const std::vector<ops::DiffReport>& steps, const std::vector<std::string>& paths) {
  Json json = Json::array();
  for (size_t i = 0; i < steps.size(); ++i)
    json.push_back({{"a", paths[i]},
                    {"b", paths[i + 1]},
                    {"total", TallyJson(steps[i].total)},
                    {"update", NormsJson(steps[i].update)},
                    {"layers", LayersJson(steps[i].layers)},
                    {"findings", FindingsJson(steps[i].findings)}});
  return json;
}

Json ReportJson(const ops::VersionsReport& versions, const Args& args) {
  const ops::DiffReport& report = versions.whole;
  const std::vector<std::string> paths = args.Paths();
  Json params = Json::array();
  const size_t limit = args.top ? static_cast<size_t>(*args.top) : SIZE_MAX;
  for (const ops::ParamDiff& param : report.params)
    if (param.tally.changed > 0 && params.size() < limit) params.push_back(ParamJson(param));
  Json json = {{"a", paths.front()},
               {"b", paths.back()},
               {"a_kind", report.a_kind->name},
               {"b_kind", report.b_kind->name},
               {"compared", report.params.size()},
               {"total", TallyJson(report.total)},
               {"tensors", std::move(params)},
               {"update", NormsJson(report.update)},
               {"layers", LayersJson(report.layers)},
               {"findings", FindingsJson(report.findings)}};
  if (!versions.steps.empty()) json["steps"] = StepsJson(versions.steps, paths);
  return json;
}

Result<ops::DiffRequest> RequestOf(const Args& args, const ToolContext& context) {
  ops::DiffRequest request;
  NXDKIT_ASSIGN(request.limits, LimitsOf(args));
  request.optimizer = args.optimizer;
  const auto later = [&](const std::string& path) -> ops::DiffSide {
    return {path, kinds::KindFromName(args.b_from), HintsOf(args.b_layout, "--b-")};
  };
  request.a = {args.a, kinds::KindFromName(args.a_from), HintsOf(args.a_layout, "--a-")};
  request.b = later(args.b);
  for (const std::string& path : args.later) request.later.push_back(later(path));
  std::vector<ops::DiffSide*> sides = {&request.a, &request.b};
  for (ops::DiffSide& side : request.later) sides.push_back(&side);
  for (ops::DiffSide* side : sides)
    NXDKIT_TRY(TakeHeld(context, side->path, side->kind, side->hints));
  return request;
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  NXDKIT_ASSIGN(ops::DiffRequest request, RequestOf(args, context));
  NXDKIT_TRY(CheckPage(args.html, args.Paths(), context));
  const Runner runner(context);
  request.run = runner.options();
  NXDKIT_ASSIGN(const ops::VersionsReport report, ops::DiffVersions(request));
  context.Tell(report.whole);
  context.DetailKind(args.a, report.whole.a_kind, !args.a_from.empty());
  context.DetailKind(args.Paths().back(), report.whole.b_kind, !args.b_from.empty());
  ToolAnswer answer{(report.steps.empty() ? "" : "first against last: ") +
                        ReportText(report.whole, args, request.limits) +
                        StepsText(report.steps, args),
                    ReportJson(report, args), report.differs()};
  if (args.html) NXDKIT_TRY(AddPage(*args.html, DiffPage(args.Paths(), report), answer));
  return answer;
}

}  // namespace

constinit const Command kCkptDiff = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace nxdkit::tool
