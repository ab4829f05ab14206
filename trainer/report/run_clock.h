// The working time of a run, from the times in its running_log/trainer.log: all attempts, including
// parts that its metric log lacks: loading, and steps lost in a crash.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nxdkit::trainer {

struct RunClock {
  int64_t attempts = 0;  // those that have begun: lines with kAttemptBegins (run_log.h)
  double seconds = 0;    // sum over the attempts, from first to last line
  // Steps of the whole run, from the last line of a step; nullopt: there is none.
  std::optional<int64_t> steps{};
  // The times of the first line and the last one, in seconds since 1970.
  std::optional<int64_t> first{}, last{};
  std::string version{};  // of nxdkit, at the last start; "": not recorded
};

// `text` as written by RunLog. Lines without a time are skipped, and times that go back count as
// none; nothing is an error.
RunClock ParseRunningLog(std::string_view text);

// Seconds since 1970 for "2026-11-21T12:05:09Z", the form of TimeText (run_log.h); nullopt for
// anything else.
std::optional<int64_t> ParseTimeText(std::string_view text);

}  // namespace nxdkit::trainer
