#include "tools/cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/base/stopwatch.h"

namespace nxdkit::tool {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr ProgressState kState = {.phase = "writing",
                                  .done = 6'885'000'000,
                                  .total = 15'300'000'000,
                                  .seconds = 5.508,
                                  .rate = 1.25e9,
                                  .peak_rss = 512'000'000};

TEST(ProgressLine, SaysAllWhereThereIsRoom) {
  EXPECT_EQ(
      ProgressLine(kState, 120),
      "writing  [#############-----------------]   45%  6.88 of 15.3 GB  1.25 GB/s  0:07 left  "
      "512 MB of memory");
}

TEST(ProgressLine, LeavesOutWhatMattersLeast) {
  EXPECT_EQ(ProgressLine(kState, 80),
            "writing  [##########-------------]   45%  6.88 of 15.3 GB  1.25 GB/s  0:07 left");
  EXPECT_EQ(ProgressLine(kState, 60),
            "writing  [#########-----------]   45%  1.25 GB/s  0:07 left");
  EXPECT_EQ(ProgressLine(kState, 40), "writing  [####-------]   45%  1.25 GB/s");
  EXPECT_EQ(ProgressLine(kState, 16), "writing   45%");
  EXPECT_EQ(ProgressLine(kState, 5), "writ");
}

TEST(ProgressLine, FitsEveryWidth) {
  for (int columns = 2; columns < 200; ++columns)
    EXPECT_LT(ProgressLine(kState, columns).size(), static_cast<size_t>(columns));
}

TEST(ProgressLine, UnknownTotals) {
  ProgressState state = {.phase = "unpacking", .done = 1000, .rate = 500, .peak_rss = 1000};
  EXPECT_EQ(ProgressLine(state, 80), "unpacking  1.00 kB  500 B/s  1.00 kB of memory");
  state = {.phase = "compiling", .seconds = 75};
  EXPECT_EQ(ProgressLine(state, 80), "compiling  1:15");
  EXPECT_EQ(ProgressLogLine(state), "compiling: 1:15");
}

TEST(ProgressLine, Edges) {
  const auto line = [](uint64_t done, uint64_t total, double rate) {
    return ProgressLine({.phase = "x", .done = done, .total = total, .seconds = 1, .rate = rate},
                        200);
  };
  EXPECT_THAT(line(0, 100, 0), HasSubstr("  0%  0 of 100 B  0 B/s"));
  EXPECT_THAT(line(0, 100, 0), Not(HasSubstr("left")));
  EXPECT_THAT(line(999'999, 1'000'000, 1), HasSubstr(" 99%  "));
  EXPECT_THAT(line(100, 100, 100), HasSubstr("100%  100 of 100 B  100 B/s  0:00 left"));
  EXPECT_THAT(line(120, 100, 120), HasSubstr("100%"));
  EXPECT_THAT(line(1, 7201, 1), HasSubstr("2:00:00 left"));
  EXPECT_THAT(line(1, UINT64_MAX, 1), Not(HasSubstr("left")));
  EXPECT_THAT(line(UINT64_MAX, UINT64_MAX, 1), HasSubstr("100%"));
}

TEST(ProgressLogLine, IsASentenceOfNumbers) {
  EXPECT_EQ(ProgressLogLine(kState), "writing: 45%, 6.88 of 15.3 GB, 1.25 GB/s, 0:07 left");
}

TEST(LogPace, IsDueAtEachTenthAndAfterHalfAMinute) {
  LogPace pace;
  EXPECT_FALSE(pace.IsDue(50, 100, 4.9));  // too early
  EXPECT_TRUE(pace.IsDue(50, 100, 5));
  EXPECT_FALSE(pace.IsDue(70, 100, 9.9));  // too close to the last line
  EXPECT_TRUE(pace.IsDue(70, 100, 10));
  EXPECT_FALSE(pace.IsDue(79, 100, 39.9));  // the same tenth
  EXPECT_TRUE(pace.IsDue(79, 100, 40));
  EXPECT_TRUE(pace.IsDue(80, 100, 45));
}

TEST(LogPace, UnknownTotalsAreDueEveryHalfMinute) {
  LogPace pace;
  EXPECT_FALSE(pace.IsDue(1, 0, 29));
  EXPECT_TRUE(pace.IsDue(1, 0, 30));
  EXPECT_FALSE(pace.IsDue(1, 0, 59));
  EXPECT_TRUE(pace.IsDue(1, 0, 60));
}

TEST(RecentRate, ForgetsWhatIsOlderThanFiveSeconds) {
  RecentRate rate;
  EXPECT_DOUBLE_EQ(rate.Add(1, 1000), 1000);
  EXPECT_DOUBLE_EQ(rate.Add(2, 2000), 1000);
  for (int second = 3; second <= 20; ++second) rate.Add(second, 2000);
  EXPECT_DOUBLE_EQ(rate.Add(21, 2000), 0);  // it stands still
  EXPECT_DOUBLE_EQ(rate.Add(22, 7000), 1000);
}

TEST(Progress, CountsFromManyThreads) {
  Progress progress("x", 0, {});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) progress.Add(3);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(progress.done(), 120'000u);
}

// The text written to a screen, from the thread that draws.
struct Screen {
  std::mutex mutex;
  std::vector<std::string> drawn;

  Progress::Screen Of(int columns) {
    return {.write =
                [this](std::string_view text) {
                  const std::lock_guard<std::mutex> lock(mutex);
                  drawn.emplace_back(text);
                },
            .columns = [columns] { return columns; },
            .name = "tool"};
  }
  size_t size() {
    const std::lock_guard<std::mutex> lock(mutex);
    return drawn.size();
  }
};

TEST(Progress, DrawsSeldomAlsoWhereNothingMovesAndErases) {
  Screen screen;
  const Stopwatch watch;
  {
    Progress progress("work", 1'000'000'000, screen.Of(80));
    progress.Add(1);
    while (screen.size() < 2 && watch.Seconds() < 60) std::this_thread::yield();
    progress.WriteAbove("a line\n");
  }
  ASSERT_GE(screen.drawn.size(), 4u);
  EXPECT_GE(watch.Seconds(), 0.2);
  EXPECT_THAT(screen.drawn[0], ::testing::StartsWith("\r\x1b[Kwork  ["));
  EXPECT_THAT(screen.drawn, ::testing::Contains("\r\x1b[Ka line\n"));
  EXPECT_EQ(screen.drawn.back(), "\r\x1b[K");
}

TEST(Progress, ShortRunsDrawNothing) {
  Screen screen;
  { const Progress progress("x", 10, screen.Of(80)); }
  EXPECT_THAT(screen.drawn, ::testing::IsEmpty());
}

}  // namespace
}  // namespace nxdkit::tool
