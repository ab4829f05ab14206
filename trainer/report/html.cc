#include "trainer/report/html.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/base/duration.h"
#include "lib/base/text.h"
#include "lib/page/chart.h"
#include "lib/page/html.h"
#include "lib/page/numbers.h"
#include "lib/page/page.h"
#include "lib/system/paths.h"
#include "trainer/base/characters.h"
#include "trainer/report/bill_text.h"
#include "trainer/report/console.h"

namespace nxdkit::trainer {
namespace {

using page::Curve;
using SeriesMap = std::map<std::string, std::vector<Point>>;

struct ChartRow {
  const char* title;
  const char* help;
  std::vector<const char*> names;  // metrics; "reward/*": a whole group
  bool band = false;               // each ".../mean" is shown with its min and max
};

const std::vector<ChartRow>& Charts() {
  static const std::vector<ChartRow> kCharts = {
      {"Reward", "mean over the step's responses", {"reward/*"}},
      {"Validation", "mean over the validation set", {"val/*"}},
      {"Score", "before subtracting KL", {"critic/score/mean"}, true},
      {"Response length", "tokens", {"response_length/mean"}, true},
      {"Responses cut off",
       "share at the length limit",
       {"response_length/clip_ratio", "prompt_length/clip_ratio"}},
      {"KL",
       "of the policy from the reference, and from the policy before the update",
       {"actor/kl_loss", "actor/kl_penalty", "actor/ppo_kl"}},
      {"Engine against trainer",
       "distance of their log-probs for the same tokens",
       {"rollout/log_prob_gap_mean", "rollout/log_prob_gap_max"}},
      {"Importance of the engine's tokens",
       "weights of algorithm.rollout_is, and the share that was cut",
       {"rollout/is_mean", "rollout/is_min", "rollout/is_max", "rollout/is_truncated",
        "rollout/is_effective"}},
      {"Proved weights",
       "digests of the engine's memory that match the prediction, and those it cannot show",
       {"sync/proved", "sync/not_covered"}},
      {"Entropy",
       "of the policy, and of the sampled tokens",
       {"actor/entropy", "actor/entropy_loss"}},
      {"Gradient norm", "before clipping", {"actor/grad_norm", "critic/grad_norm"}},
      {"Learning rate", "", {"actor/lr", "critic/lr"}},
      {"Clipped tokens",
       "share of tokens whose ratio left the clip range",
       {"actor/pg_clipfrac_higher", "actor/pg_clipfrac_lower"}},
      {"Policy loss", "near 0 is normal when each batch is used once", {"actor/pg_loss"}},
      {"Critic",
       "its loss, and the share of the returns that it explains",
       {"critic/vf_loss", "critic/vf_explained_var", "critic/vf_clipfrac"}},
      {"Values",
       "the critic's values, and the actual returns",
       {"critic/values/mean", "critic/returns/mean", "critic/vpred_mean"}},
      {"Throughput", "tokens per second and device", {"perf/throughput"}},
      {"Memory",
       "GiB of the process",
       {"perf/cpu_memory_used_gb", "perf/max_memory_allocated_gb", "perf/max_memory_reserved_gb"}},
      {"Model FLOPs utilization", "share of the peak", {"perf/mfu_actor", "perf/mfu_critic"}},
  };
  return kCharts;
}

struct Summary {
  double low = 0, high = 0, last = 0;
  int64_t count = 0;  // number of finite values
};

Summary Summarize(const std::vector<Point>& points) {
  Summary result;
  for (const Point& point : points) {
    result.last = point.value;
    if (!std::isfinite(point.value)) continue;
    result.low = result.count == 0 ? point.value : std::min(result.low, point.value);
    result.high = result.count == 0 ? point.value : std::max(result.high, point.value);
    ++result.count;
  }
  return result;
}

// The smallest, largest and last value.
std::string SummaryCells(const std::vector<Point>& points) {
  const Summary sum = Summarize(points);
  const bool any = sum.count > 0;
  return fmt::format("<td>{}</td><td>{}</td><td>{}</td>", any ? ShortNumber(sum.low) : "-",
                     any ? ShortNumber(sum.high) : "-", ShortNumber(sum.last));
}

const std::vector<Point>* Find(const SeriesMap& all, const std::string& name) {
  const auto found = all.find(name);
  return found != all.end() && Summarize(found->second).count > 0 ? &found->second : nullptr;
}

// "response_length/mean" -> "response_length/"
std::string StemOf(const std::string& mean) { return mean.substr(0, mean.rfind('/') + 1); }

// The curves that have a finite value.
std::vector<Curve> CurvesOf(const SeriesMap& all, const std::vector<const char*>& names,
                            bool band = false) {
  std::vector<Curve> curves;
  for (const std::string_view name : names) {
    const bool group = name.ends_with("/*");
    const std::string_view prefix = group ? name.substr(0, name.size() - 1) : name;
    for (const auto& [key, points] : all)
      if ((group ? key.starts_with(prefix) : key == prefix) && Find(all, key))
        curves.push_back({key, &points});
  }
  if (!band) return curves;
  for (Curve& curve : curves) {
    curve.low = Find(all, StemOf(curve.name) + "min");
    curve.high = Find(all, StemOf(curve.name) + "max");
  }
  return curves;
}

std::string LegendRow(std::string_view name, std::string_view key,
                      const std::vector<Point>& points) {
  return fmt::format("<tr><td title=\"{}\"><span class=\"key {}\"></span>{}</td>{}</tr>\n",
                     page::Escape(name), key, page::NameHtml(name), SummaryCells(points));
}

std::string Legend(const std::vector<Curve>& curves) {
  std::string rows;
  for (size_t i = 0; i < curves.size(); ++i) {
    const Curve& curve = curves[i];
    rows += LegendRow(curve.name, fmt::format("f{}", i % 8), *curve.points);
    const std::string stem = StemOf(curve.name);
    const std::string band = fmt::format("band f{}", i % 8);
    if (curve.high) rows += LegendRow(stem + "max", band, *curve.high);
    if (curve.low) rows += LegendRow(stem + "min", band, *curve.low);
  }
  return "<table class=\"legend\"><tr><th></th><th>min</th><th>max</th><th>last</th></tr>\n" +
         rows + "</table>\n";
}

std::string Figure(std::string_view title, std::string_view help, const std::string& chart,
                   const std::vector<Curve>& curves) {
  if (chart.empty()) return "";
  return fmt::format(
      "<figure><figcaption><b>{}</b> <small>{}</small></figcaption>\n{}{}</figure>\n", title, help,
      chart, Legend(curves));
}

// Phases in the order of a step, then others.
constexpr std::string_view kPhaseOrder[] = {"timing_s/gen",           "timing_s/reward",
                                            "timing_s/old",           "timing_s/ref",
                                            "timing_s/values",        "timing_s/adv",
                                            "timing_s/update_critic", "timing_s/update_actor",
                                            "timing_s/validation",    "timing_s/save_checkpoint"};

auto PhasePlace(const Curve& curve) {
  return std::ranges::find(kPhaseOrder, curve.name) - std::begin(kPhaseOrder);
}

// Parts of the weight sync, which is itself part of gen.
bool IsSyncTime(std::string_view name) { return name.starts_with("timing_s/sync_"); }

std::string SyncFigure(const SeriesMap& all) {
  std::vector<Curve> curves = CurvesOf(all, {"timing_s/*"});
  std::erase_if(curves, [](const Curve& curve) { return !IsSyncTime(curve.name); });
  return Figure("Weight sync", "seconds in each part", page::StackChart(curves, "s"), curves);
}

std::string TimingFigure(const SeriesMap& all) {
  std::vector<Curve> curves = CurvesOf(all, {"timing_s/*"});
  std::erase_if(curves, [](const Curve& curve) {
    return curve.name == "timing_s/step" || IsSyncTime(curve.name);
  });
  std::ranges::stable_sort(curves, {}, PhasePlace);
  return Figure("Time of a step", "seconds in each phase", page::StackChart(curves, "s"), curves);
}

std::string ChartSection(const SeriesMap& all) {
  std::string html;
  for (const ChartRow& row : Charts()) {
    const std::vector<Curve> curves = CurvesOf(all, row.names, row.band);
    html += Figure(row.title, row.help, page::CurveChart(curves), curves);
  }
  html += TimingFigure(all);
  html += SyncFigure(all);
  return html.empty() ? "<p>No metrics yet.</p>\n" : "<div class=\"charts\">\n" + html + "</div>\n";
}

std::string MetricTable(const SeriesMap& all) {
  if (all.empty()) return "";
  std::string rows;
  for (const auto& [name, points] : all)
    rows += fmt::format("<tr><td>{}</td><td>{}</td>{}</tr>\n", page::NameHtml(name), points.size(),
                        SummaryCells(points));
  return fmt::format(
      "<details><summary>All {} metrics</summary><table class=\"data\"><tr><th>name</th>"
      "<th>values</th><th>min</th><th>max</th><th>last</th></tr>\n{}</table></details>\n",
      all.size(), rows);
}

std::string ValueAt(const SeriesMap& all, const std::string& name, int64_t step) {
  if (const std::vector<Point>* points = Find(all, name))
    for (const Point& point : *points)
      if (point.step == step) return ShortNumber(point.value);
  return "-";
}

// One row for each step: the weights used for generation, and their proof.
std::string SyncTable(const SeriesMap& all) {
  const std::vector<Point>* syncs = Find(all, "sync/serial");
  if (!syncs) return "";
  std::vector<std::string> parts;
  for (const auto& [name, points] : all)
    if (IsSyncTime(name)) parts.push_back(name);
  std::string head = "<th>step</th><th>version</th><th>proved</th><th>not covered</th><th>gap</th>";
  for (const std::string& part : parts)
    head += fmt::format("<th>{}, s</th>", page::Escape(part.substr(part.find('_', 8) + 1)));
  std::string rows;
  for (const Point& sync : *syncs) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td>", sync.step, sync.value);
    for (const char* name : {"sync/proved", "sync/not_covered", "rollout/log_prob_gap_mean"})
      rows += fmt::format("<td>{}</td>", ValueAt(all, name, sync.step));
    for (const std::string& part : parts)
      rows += fmt::format("<td>{}</td>", ValueAt(all, part, sync.step));
    rows += "</tr>\n";
  }
  return fmt::format(
      "<details><summary>{} weight syncs</summary><table class=\"data\"><tr>{}</tr>\n{}</table>"
      "</details>\n",
      syncs->size(), head, rows);
}

std::string ConfigValue(const RunFiles& run, std::string_view path) {
  for (const auto& [key, value] : run.config)
    if (key == path)
      return value.size() >= 2 && value.front() == '"' ? value.substr(1, value.size() - 2) : value;
  return "";
}

std::string ConfigTable(const RunFiles& run) {
  if (run.config.empty()) return "";
  std::string rows;
  for (const auto& [key, value] : run.config)
    rows +=
        fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", page::NameHtml(key), page::Escape(value));
  return fmt::format(
      "<details><summary>Configuration, {}</summary><table class=\"data\">\n"
      "{}</table></details>\n",
      Counted(run.config.size(), "key"), rows);
}

double Total(const SeriesMap& all, const std::string& name) {
  const auto found = all.find(name);
  double total = 0;
  if (found != all.end())
    for (const Point& point : found->second)
      if (std::isfinite(point.value)) total += point.value;
  return total;
}

std::string Cards(const SeriesMap& all) {
  std::vector<page::Card> cards;
  int64_t last_step = 0;
  for (const auto& [name, points] : all) last_step = std::max(last_step, points.back().step);
  if (!all.empty()) cards.push_back({"last step", std::to_string(last_step)});
  const struct {
    const char* label;
    const char* name;
    bool best;
  } rows[] = {{"reward", "reward/overall", false},
              {"accuracy", "reward/accuracy", false},
              {"best validation", "val/reward_score", true},
              {"response length", "response_length/mean", false}};
  for (const auto& row : rows) {
    const auto found = all.find(row.name);
    if (found == all.end()) continue;
    const Summary sum = Summarize(found->second);
    cards.push_back({row.label, ShortNumber(row.best && sum.count > 0 ? sum.high : sum.last)});
  }
  if (const double seconds = Total(all, "perf/time_per_step"); seconds > 0)
    cards.push_back({"training time", ClockText(seconds)});
  if (const double tokens = Total(all, "perf/total_num_tokens"); tokens > 0)
    cards.push_back({"tokens", CountText(tokens)});
  return page::Cards(cards);
}

std::string CostTable(const Bill& bill) {
  std::string rows;
  for (const auto& [what, text] : BillRows(bill))
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", what, page::Escape(text));
  return rows.empty() ? "" : "<h2>Cost</h2>\n<table class=\"data\">\n" + rows + "</table>\n";
}

constexpr size_t kLongestText = 8192;
constexpr size_t kSteps = 10;  // with samples, the last ones
constexpr size_t kSamplesOfStep = 20;

std::string Shown(const std::string& text) {
  if (text.size() <= kLongestText) return page::Escape(text);
  const size_t end = CharBegin(text, kLongestText);
  return page::Escape(text.substr(0, end)) +
         fmt::format("<i> ... {} more bytes</i>", text.size() - end);
}

std::string Sample(const Generation& sample) {
  return fmt::format(
      "<article><header>score <b>{}</b>, expected <code>{}</code></header>\n"
      "<details><summary>prompt</summary><pre>{}</pre></details>\n<pre>{}</pre></article>\n",
      ShortNumber(sample.score), Shown(sample.ground_truth), Shown(sample.prompt),
      Shown(sample.output));
}

std::string Samples(const RunFiles& run) {
  std::map<int64_t, std::vector<const Generation*>, std::greater<>> by_step;
  for (const GenerationRecord& record : run.generations)
    by_step[record.step].push_back(&record.sample);
  std::string html;
  size_t shown = 0;
  for (const auto& [step, samples] : by_step) {
    if (shown == kSteps) break;
    const size_t count = std::min(samples.size(), kSamplesOfStep);
    html +=
        fmt::format("<details{}><summary>Step {}, {} of {}</summary>\n",
                    shown++ == 0 ? " open" : "", step, count, Counted(samples.size(), "sample"));
    for (size_t i = 0; i < count; ++i) html += Sample(*samples[i]);
    html += "</details>\n";
  }
  return html.empty() ? "" : "<h2>Samples</h2>\n" + html;
}

std::string Title(const RunFiles& run) {
  const std::string project = ConfigValue(run, "trainer.project_name");
  const std::string experiment = ConfigValue(run, "trainer.experiment_name");
  if (project.empty() && experiment.empty()) return BaseName(run.folder);
  return project + " / " + experiment;
}

}  // namespace

std::string HtmlReport(const RunFiles& run, const Bill& bill) {
  const SeriesMap& all = run.metrics.by_name;
  page::Page report(Title(run));
  report.Add(page::Problems(run.problems));
  report.Add(Cards(all));
  report.Add(CostTable(bill));
  report.Add(ChartSection(all));
  report.Add(Samples(run));
  report.Heading("Numbers");
  report.Add(SyncTable(all));
  report.Add(MetricTable(all));
  report.Add(ConfigTable(run));
  return report.Text();
}

}  // namespace nxdkit::trainer
