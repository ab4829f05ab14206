// The times of running_log/trainer.log, as hours of work.
#include "trainer/report/run_clock.h"

#include <gtest/gtest.h>

#include <string>

#include "trainer/report/run_log.h"

namespace nxdkit::trainer {
namespace {

TEST(RunClocks, ReadTheTimesThatTheLogWrites) {
  for (const int64_t seconds : {int64_t{0}, int64_t{1795262709}, int64_t{4102444800}})
    EXPECT_EQ(ParseTimeText(TimeText(seconds)), seconds);
  EXPECT_EQ(ParseTimeText("2024-02-29T23:59:59Z"), 1709251199);
  for (const char* text : {"", "2023-02-29T00:00:00Z", "2024-13-01T00:00:00Z",
                           "2024-01-01T24:00:00Z", "2024-01-01 00:00:00Z", "2024-01-01T00:00:00+",
                           "-024-01-01T00:00:00Z", "2024-01-01T00:00:00Z "})
    EXPECT_EQ(ParseTimeText(text), std::nullopt) << text;
}

// 60 s, then a night without work, then 3600 s.
TEST(RunClocks, AddAllAttempts) {
  const RunClock clock = ParseRunningLog(
      "2026-11-21T12:00:00Z grpo-train 0.1.0 begins, process 7: --config a\n"
      "2026-11-21T12:00:30Z step 1/50  gen\n"
      "2026-11-21T12:01:00Z step 1/50  reward 0.5\n"
      "2026-11-22T08:00:00Z grpo-train 0.1.0 begins, process 9: --config a\n"
      "2026-11-22T08:59:00Z step 2/60  gen\n"
      "2026-11-22T09:00:00Z error: no space\n");
  EXPECT_EQ(clock.attempts, 2);
  EXPECT_EQ(clock.seconds, 3660);
  EXPECT_EQ(clock.steps, 60);
}

TEST(RunClocks, PassOverWhatIsNoLineOfTheLog) {
  const RunClock none = ParseRunningLog("");
  EXPECT_EQ(none.attempts, 0);
  EXPECT_EQ(none.seconds, 0);
  EXPECT_EQ(none.steps, std::nullopt);
  // A log without its beginning, a clock that was set back, truncated lines.
  const RunClock clock = ParseRunningLog(
      "9:40:00Z step 1/50\n2026-11-21T12:00:10Z step 1/x  gen\n2026-11-21T12:00:20Z\n"
      "2026-11-21T12:00:20Z step 2/0  gen\n2026-11-21T12:00:00Z step /9  gen\n"
      "2026-11-21T13:00:00Z grpo-train 0.1.0 begins, process 9: \n2026-11-21T13:00:05Z cu");
  EXPECT_EQ(clock.attempts, 2);
  EXPECT_EQ(clock.seconds, 5);
  EXPECT_EQ(clock.steps, std::nullopt);
}

}  // namespace
}  // namespace nxdkit::trainer
