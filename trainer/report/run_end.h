// The three lines that a run prints at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/report/bill.h"
#include "trainer/report/run_files.h"

namespace nxdkit::trainer {

struct RunEnd {
  std::string run;              // its folder
  std::string checkpoint;       // the last one's folder; "": there is none
  std::string tensorboard;      // the folder of its events; "": none were written
  std::optional<Point> best{};  // the first step of the highest validation score
};

// The highest "val/reward_score" of a run, and its first step; NaNs do not count.
std::optional<Point> BestValidation(const MetricSeries& metrics);

// "300 steps done, in RUN: 8.2 M tokens in 5 h 20 min\n"
// "best validation: reward_score 0.8125 at step 250\n"
// "report: grpo-train report RUN  curves: tensorboard --logdir DIR  checkpoint: RUN/...\n"
// Paths are quoted for a shell where that is needed.
std::string RunEndText(const RunEnd& end, const Bill& bill);

}  // namespace nxdkit::trainer
