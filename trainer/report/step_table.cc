#include "trainer/report/step_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "lib/base/duration.h"
#include "lib/base/text.h"
#include "trainer/report/console.h"

namespace nxdkit::trainer {
namespace {

constexpr size_t kWidest = 80;
constexpr int kRowsOfHeading = 20;

enum class Form { kNumber, kReward, kShare, kSeconds };

struct Metric {
  std::string_view name;
  std::string_view heading;
};

// The first of these metrics that a step has.
struct TableColumn {
  std::span<const Metric> metrics;
  size_t width;  // with the two spaces in front
  int importance;
  Form form = Form::kNumber;
};

constexpr Metric kReward[] = {{"reward/overall", "reward"}, {"critic/score/mean", "reward"}};
constexpr Metric kDistance[] = {{"actor/kl_loss", "kl"},
                                {"actor/kl_penalty", "kl"},
                                {"actor/ppo_kl", "ppo_kl"},
                                {"actor/pg_loss", "loss"}};
constexpr Metric kEntropy[] = {{"actor/entropy_loss", "entropy"}, {"actor/entropy", "entropy"}};
constexpr Metric kLength[] = {{"response_length/mean", "length"}};
constexpr Metric kCut[] = {{"response_length/clip_ratio", "cut"}};
constexpr Metric kGradient[] = {{"actor/grad_norm", "grad"}, {"critic/grad_norm", "grad"}};
constexpr Metric kSpeed[] = {{kTokensPerSecond, "tok/s"}};
constexpr Metric kSeconds[] = {{"perf/time_per_step", "sec"}};

constexpr TableColumn kTable[] = {
    {kReward, 8, 9, Form::kReward},
    {kDistance, 9, 8},
    {kEntropy, 9, 3},
    {kLength, 8, 6},
    {kCut, 6, 2, Form::kShare},
    {kGradient, 9, 5},
    {kSpeed, 7, 4},
    {kSeconds, 7, 7, Form::kSeconds},
};
constexpr size_t kLeftWidth = 9;
constexpr int kLeftImportance = 10;

std::string CellText(double value, Form form) {
  if (form == Form::kShare && std::isfinite(value)) return fmt::format("{:.0f}%", value * 100);
  if (form == Form::kSeconds && std::isfinite(value) && value < 1e5)
    return fmt::format("{:.{}f}", value, value < 1 ? 2 : value < 100 ? 1 : 0);
  if (form == Form::kReward && std::abs(value) < 0.0995) return fmt::format("{:.4f}", value);
  return CellNumber(value);
}

}  // namespace

std::string CellNumber(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value) || value == 0) return fmt::format("{}", value);
  if (size < 9.995e-4) return fmt::format("{:.1e}", value);
  if (size < 0.9995)
    return fmt::format("{:.{}f}", value, size < 0.009995 ? 5 : size < 0.09995 ? 4 : 3);
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  double shown = value;
  while (std::abs(shown) >= 999.5 && unit + 1 < std::size(kUnits)) {
    shown /= 1000;
    ++unit;
  }
  const double digits = std::abs(shown);
  return fmt::format("{:.{}f}{}", shown, digits < 9.995 ? 2 : digits < 99.95 ? 1 : 0, kUnits[unit]);
}

MetricRecord WithSpeed(MetricRecord record) {
  const double* tokens = FindMetric(record, "perf/total_num_tokens");
  const double* seconds = FindMetric(record, "perf/time_per_step");
  if (tokens && seconds && *seconds > 0) record.emplace_back(kTokensPerSecond, *tokens / *seconds);
  return record;
}

StepTable::StepTable(int64_t total_steps, size_t columns)
    : total_steps_(total_steps), columns_(columns == 0 ? kWidest : std::min(columns, kWidest)) {}

std::string StepTable::Position(int64_t step) const {
  if (total_steps_ <= 0) return fmt::format("{:>7}", step);
  const std::string total = std::to_string(total_steps_);
  return fmt::format("{:>{}}", fmt::format("{}/{}", step, total),
                     std::max<size_t>(7, 2 * total.size() + 1));
}

std::vector<StepTable::Cell> StepTable::CellsOf(const MetricRecord& step,
                                                const StepsLeft& left) const {
  const MetricRecord record = WithSpeed(step);
  std::vector<Cell> cells;
  for (const TableColumn& column : kTable)
    for (const Metric& metric : column.metrics)
      if (const double* value = FindMetric(record, metric.name)) {
        cells.push_back({std::string(metric.heading), CellText(*value, column.form),
                         column.importance, column.width});
        break;
      }
  const std::string time = left.seconds ? ClockText(*left.seconds) : "-";
  cells.push_back({"left", time, kLeftImportance, kLeftWidth});
  if (left.cost)
    cells.push_back({"cost", fmt::format("{:.2f}", *left.cost), kLeftImportance, kLeftWidth});
  return cells;
}

void StepTable::LeaveOut(std::vector<Cell>& cells) const {
  for (;;) {
    size_t width = Position(0).size();
    for (const Cell& cell : cells) width += cell.width;
    if (width < columns_ || cells.size() < 2) return;
    cells.erase(std::ranges::min_element(cells, {}, &Cell::importance));
  }
}

std::vector<std::string> StepTable::Step(int64_t step, const MetricRecord& record,
                                         const StepsLeft& left) {
  std::vector<Cell> cells = CellsOf(record, left);
  LeaveOut(cells);
  std::string row = Position(step);
  std::string heading = fmt::format("{:>{}}", "step", row.size());
  for (const Cell& cell : cells) {
    row += fmt::format(" {:>{}}", cell.text, cell.width - 1);
    heading += fmt::format(" {:>{}}", cell.heading, cell.width - 1);
  }
  std::vector<std::string> lines;
  if (heading != heading_ || rows_ >= kRowsOfHeading) {
    lines.push_back(heading);
    heading_ = std::move(heading);
    rows_ = 0;
  }
  ++rows_;
  lines.push_back(std::move(row));
  return lines;
}

std::string StepTable::Validation(int64_t step, const MetricRecord& record) const {
  constexpr std::string_view kGroup = "val/", kScore = "val/reward_score";
  // The score is the mean of the overall rewards.
  constexpr std::string_view kSame = "val/overall_reward";
  std::string line = Position(step) + "  validation";
  const auto add = [&](std::string_view name, double value) {
    const std::string more = fmt::format("  {} {}", EscapeControl(name), CellNumber(value));
    if (TextColumns(line) + TextColumns(more) < columns_) line += more;
  };
  if (const double* score = FindMetric(record, kScore)) add(kScore.substr(kGroup.size()), *score);
  for (const auto& [name, value] : record)
    if (name.starts_with(kGroup) && name != kScore && name != kSame)
      add(std::string_view(name).substr(kGroup.size()), value);
  return line;
}

}  // namespace nxdkit::trainer
