// Reports the progress of a run: to a person through a sink, and to running_log/ in its folder.
//   trainer.log             2026-11-21T12:05:09Z step 3/50  reward 0.5120 ...
//   rollout_worker_N.log    standard error of rollout worker N
// A continued run appends to them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "trainer/report/append_file.h"
#include "trainer/report/console.h"

namespace nxdkit::trainer {

inline constexpr std::string_view kRunningLogFolder = "running_log";
inline constexpr std::string_view kTrainerLog = "trainer.log";  // in that folder
// Part of the first line that each attempt of a run writes, after the program and its version.
inline constexpr std::string_view kAttemptBegins = " begins, process ";

// Formats seconds since 1970 in UTC: "2026-11-21T12:05:09Z".
std::string TimeText(int64_t seconds);
int64_t SecondsNow();

// The log of each rollout worker, below a run's folder.
std::vector<std::string> WorkerLogPaths(const std::string& run_folder, int64_t workers);

// Not thread-safe.
class RunLog {
 public:
  using Clock = std::function<int64_t()>;  // seconds since 1970

  // Creates the folder and trainer.log, or appends to an existing one.
  static Result<RunLog> Open(const std::string& run_folder, Clock clock = SecondsNow);

  // Each line of `text` with the time. After an error later lines may be written again: the caller
  // decides whether to continue a run without its log.
  Status Line(std::string_view text);

 private:
  AppendFile file_;
  Clock clock_;
};

struct DisplayOptions {
  std::function<void(std::string_view)> write;  // to stderr; none: nothing is shown
  bool terminal = false;                        // a status line that updates itself
  size_t columns = 0;                           // of the terminal; 0: 80
  bool steps = true;  // false: steps and their phases are only logged (trainer.logger: no console)
  BillTerms terms{};  // for the remaining part
};

// Thread-safe; on a terminal a separate thread updates the time in the status line.
class RunDisplay {
 public:
  explicit RunDisplay(DisplayOptions options);
  RunDisplay(const RunDisplay&) = delete;
  RunDisplay& operator=(const RunDisplay&) = delete;
  ~RunDisplay() { Close(); }

  // Starts with the lines so far. A line that cannot be written is lost, but the run continues: the
  // first such error is shown.
  void LogTo(RunLog log);

  void Line(std::string_view line);    // shown and logged
  void Record(std::string_view line);  // logged alone

  // Used as the hooks of the loop (trainer/loop/trainer.h).
  void BeginPhase(int64_t step, int64_t steps, const std::string& phase);
  void Progress(int64_t done, int64_t units);
  void Step(int64_t step, int64_t steps, const MetricRecord& record);

  // Removes the status line; later output is whole lines.
  void Close();

 private:
  Console& ConsoleFor(int64_t steps);
  void Show(std::string_view line);
  void Log(std::string_view line);
  void Tick(const std::stop_token& stop);

  const DisplayOptions options_;
  std::mutex mutex_;  // guards all below except the thread
  std::optional<Console> console_;
  std::optional<RunLog> log_;
  std::vector<std::string> early_;  // lines for a log that is not open yet
  bool log_failed_ = false;
  std::condition_variable_any wake_;
  std::jthread ticker_;
};

}  // namespace nxdkit::trainer
