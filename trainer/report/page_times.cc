#include "trainer/report/page_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/page/chart.h"
#include "lib/page/html.h"
#include "lib/page/legend.h"
#include "lib/page/stack_chart.h"

namespace nxdkit::trainer {
namespace {

using page::Curve;

// Phases in the order of a step, then others.
constexpr std::string_view kPhaseOrder[] = {"timing_s/gen",           "timing_s/reward",
                                            "timing_s/old",           "timing_s/ref",
                                            "timing_s/values",        "timing_s/adv",
                                            "timing_s/update_critic", "timing_s/update_actor",
                                            "timing_s/validation",    "timing_s/save_checkpoint"};

auto PhasePlace(const std::string& name) {
  return std::ranges::find(kPhaseOrder, name) - std::begin(kPhaseOrder);
}

bool IsPhase(std::string_view name) { return name != "timing_s/step" && !IsSyncTime(name); }

constexpr std::string_view kAllTimes[] = {"timing_s/*"};

// Times by phase, for each run; a phase has one colour, and all runs one axis of seconds.
std::string StackFigures(const PageRuns& runs, std::string_view title, std::string_view help,
                         bool (*is_part)(std::string_view name)) {
  std::vector<std::string> names = MetricsOf(runs, kAllTimes);
  std::erase_if(names, [&](const std::string& name) { return !is_part(name); });
  std::ranges::stable_sort(names, {}, PhasePlace);
  std::vector<std::vector<Curve>> stacks;
  double top = 0;
  for (const PageRun& run : runs) {
    std::vector<Curve>& curves = stacks.emplace_back();
    for (size_t i = 0; i < names.size(); ++i)
      if (const std::vector<Point>* points = FindSeries(*run.files, names[i]))
        curves.push_back({.name = names[i], .points = points, .color = i});
    top = std::max(top, page::StackHeight(curves));
  }
  std::string html;
  for (const PageRun& run : runs) {
    const std::vector<Curve>& curves = stacks[run.place];
    std::vector<std::string> parts;
    for (const Curve& curve : curves) parts.push_back(curve.name);
    const std::string name = WithRun(title, run);
    const std::string label = fmt::format("{}: {}", name, fmt::join(parts, ", "));
    html += page::Figure(name, help, page::StackChart(label, curves, "s", top),
                         page::Legend(curves, true));
  }
  return html;
}

}  // namespace

bool IsSyncTime(std::string_view name) { return name.starts_with("timing_s/sync_"); }

std::string TimeFigures(const PageRuns& runs) {
  return StackFigures(runs, "Time of a step", "seconds in each phase", IsPhase) +
         StackFigures(runs, "Weight sync", "seconds in each part", IsSyncTime);
}

}  // namespace nxdkit::trainer
