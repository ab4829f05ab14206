// How long a run has been at work, from the times of its running_log/trainer.log: all attempts,
// with what its metric log does not have: loading, and steps that a crash has lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nxdkit::trainer {

struct RunClock {
  int64_t attempts = 0;  // that have begun: lines with kAttemptBegins (run_log.h)
  double seconds = 0;    // of each from its first line to its last one, the sum
  // Steps of the whole run, as the last line of a step says; nullopt: there is none.
  std::optional<int64_t> steps{};
};

// `text` as RunLog writes it. Lines without a time are passed over, and times that go back count as
// none; nothing is an error.
RunClock ParseRunningLog(std::string_view text);

// Seconds since 1970 of "2026-11-21T12:05:09Z", as TimeText (run_log.h) writes them; nullopt for
// anything else.
std::optional<int64_t> ParseTimeText(std::string_view text);

}  // namespace nxdkit::trainer
