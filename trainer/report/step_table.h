// The steps of a run as rows of a table that fits a terminal. It shows what is watched at a glance;
// all metrics of a step are in the run's files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/report/metrics.h"

namespace nxdkit::trainer {

// The rest of a run, as far as it is known.
struct StepsLeft {
  std::optional<double> seconds;
  std::optional<double> cost;
};

// Adds kTokensPerSecond, of all cores, to the metrics of a step; perf/throughput is per core.
inline constexpr std::string_view kTokensPerSecond = "tokens_per_second";
MetricRecord WithSpeed(MetricRecord record);

// Not thread-safe.
class StepTable {
 public:
  // `columns`: of the terminal; 0: 80. `total_steps` 0: not known.
  StepTable(int64_t total_steps, size_t columns);

  // The row of a step, without a line feed; a heading comes first at the start, after 20 rows, and
  // when a step has other metrics than the one before it. Columns that do not fit are left out, the
  // least important first; a step that is not known is "-".
  //   "   step  reward       kl  entropy  length   cut     grad  tok/s    sec     left"
  //   " 12/300   0.512  0.00120     2.31     412    3%    0.251  12.3k   12.4  1:02:03"
  std::vector<std::string> Step(int64_t step, const MetricRecord& record, const StepsLeft& left);

  // " 12/300  validation  reward_score 0.512  accuracy_reward 0.498"
  std::string Validation(int64_t step, const MetricRecord& record) const;

 private:
  struct Cell {
    std::string heading;
    std::string text;
    int importance = 0;  // the highest is left out last
    size_t width = 0;
  };
  std::string Position(int64_t step) const;
  std::vector<Cell> CellsOf(const MetricRecord& step, const StepsLeft& left) const;
  void LeaveOut(std::vector<Cell>& cells) const;

  const int64_t total_steps_;
  const size_t columns_;
  std::string heading_;  // the last one
  int rows_ = 0;         // since then
};

// Three significant digits, two of small numbers: "0.512", "1.2e-05", "412", "12.3k", "1.50M".
std::string CellNumber(double value);

}  // namespace nxdkit::trainer
