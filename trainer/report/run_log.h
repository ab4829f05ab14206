// running_log/ in a run's folder: what a person was told, for later.
//   trainer.log             2026-11-21T12:05:09Z step 3/50  reward 0.5120 ...
//   rollout_worker_N.log    standard error of rollout worker N
// A run that is continued adds to them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/report/append_file.h"

namespace nxdkit::trainer {

inline constexpr std::string_view kRunningLogFolder = "running_log";

// Seconds since 1970 in UTC: "2026-11-21T12:05:09Z".
std::string TimeText(int64_t seconds);
int64_t SecondsNow();

// Of each rollout worker, below a run's folder.
std::vector<std::string> WorkerLogPaths(const std::string& run_folder, int64_t workers);

// Not thread-safe.
class RunLog {
 public:
  using Clock = std::function<int64_t()>;  // seconds since 1970

  // Makes the folder and trainer.log, or appends to what is there.
  static Result<RunLog> Open(const std::string& run_folder, Clock clock = SecondsNow);

  // Each line of `text` with the time. After an error a later line may be written again: whoever
  // writes decides whether a run is worth more than its log.
  Status Line(std::string_view text);

 private:
  AppendFile file_;
  Clock clock_;
};

}  // namespace nxdkit::trainer
