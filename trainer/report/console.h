// The view of a run for a person: the steps as rows of a table (step_table.h), and on a terminal a
// line that is redrawn with step, phase and time left. The library prints nothing: a sink takes the
// text. The log gets lines of its own, with more of each step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "trainer/report/bill.h"
#include "trainer/report/metrics.h"
#include "trainer/report/step_table.h"

namespace nxdkit::trainer {

struct ConsoleOptions {
  std::function<void(std::string_view)> write;  // to stderr; none: nothing is shown
  std::function<void(std::string_view)> log;    // whole lines of steps and long phases
  bool terminal = false;                        // redraw a status line; else whole lines only
  size_t columns = 0;                           // of the terminal; 0: 80
  int64_t total_steps = 0;                      // of the whole run
  BillTerms terms{};                            // for the remaining part
  PhaseTimer::Clock clock;                      // seconds; nullptr: the system's steady clock
};

// Not thread-safe.
class Console {
 public:
  explicit Console(ConsoleOptions options);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console();  // erases the status line

  // Prints a whole line above the status line.
  void Line(std::string_view text);

  // The start of the long phases (gen, validation, save_checkpoint) is a line of the log.
  void BeginPhase(int64_t step, std::string_view phase);
  // The progress of the current phase, `done` of `units` (responses, scores, rows); at most ten
  // redraws per second.
  void Progress(int64_t done, int64_t units);
  void Tick();  // time has passed: redraws the status line when that shows
  void EndPhase();

  // A row of the table; to the log
  // "step 12/50  reward 0.512  length 412  ...  12.3 s  left 7:45, 1.2 M tokens, cost 2.50"
  void StepDone(int64_t step, const MetricRecord& record);
  // A row with the means over the validation set; to the log all of them.
  void Validation(int64_t step, const MetricRecord& record);

 private:
  std::string Position(int64_t step) const;
  std::string Left(bool brief) const;
  void Measure(int64_t step, const MetricRecord& record);
  void Log(const std::string& line);
  void Draw();
  void Erase();

  ConsoleOptions options_;
  StepTable table_;
  PhaseTimer timer_;    // for its clock
  MetricSeries times_;  // of this process's last steps: those before a resume took another time
  Bill bill_;           // from those
  int64_t step_ = 0;
  std::string phase_;
  double phase_began_ = 0;
  int64_t units_ = 0;
  int64_t done_ = 0;
  double last_done_at_ = 0;  // time of the last StepDone
  double drawn_at_ = -1;
  std::string drawn_;  // the line drawn now; "": none
};

// "950", "12.5 k", "3.21 M".
std::string CountText(double count);

}  // namespace nxdkit::trainer
