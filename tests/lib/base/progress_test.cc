#include "lib/base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace nxdkit {
namespace {

TEST(ProgressLine, SaysAll) {
  EXPECT_EQ(ProgressLine("convert", 6'885'000'000, 15'300'000'000, 5.508, 512'000'000),
            "convert  45%  6.88 GB of 15.3 GB  1.25 GB/s  ETA 0:07  peak RSS 512 MB");
  EXPECT_EQ(ProgressLine("hash", 1000, 0, 2, 1000), "hash  1.00 kB  500 B/s  peak RSS 1.00 kB");
}

TEST(ProgressLine, Edges) {
  using ::testing::HasSubstr;
  EXPECT_THAT(ProgressLine("x", 0, 100, 1, 0), HasSubstr("0%  0 B of 100 B  0 B/s  ETA -"));
  EXPECT_THAT(ProgressLine("x", 999'999, 1'000'000, 1, 0), HasSubstr("99%"));
  EXPECT_THAT(ProgressLine("x", 100, 100, 1, 0),
              HasSubstr("100%  100 B of 100 B  100 B/s  ETA 0:00"));
  EXPECT_THAT(ProgressLine("x", 120, 100, 1, 0), HasSubstr("100%"));
  EXPECT_THAT(ProgressLine("x", 1, 7201, 1, 0), HasSubstr("ETA 2:00:00"));
  EXPECT_THAT(ProgressLine("x", 1, UINT64_MAX, 1, 0),
              HasSubstr("0%  1 B of 18.4 EB  1 B/s  ETA -"));
  EXPECT_THAT(ProgressLine("x", UINT64_MAX, UINT64_MAX, 1, 0), HasSubstr("100%"));
}

TEST(Progress, CountsFromManyThreads) {
  Progress progress("x", 0, nullptr);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) progress.Add(3);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(progress.done(), 120'000u);
}

TEST(Progress, DrawsSeldomAndErases) {
  std::vector<std::string> drawn;
  const auto start = std::chrono::steady_clock::now();
  {
    Progress progress("work", 1'000'000'000,
                      [&](std::string_view text) { drawn.emplace_back(text); });
    progress.Add(1);
    EXPECT_TRUE(drawn.empty() ||
                std::chrono::steady_clock::now() - start > std::chrono::milliseconds(100));
    while (drawn.size() < 2) progress.Add(1);
    const auto tenths = (std::chrono::steady_clock::now() - start) / std::chrono::milliseconds(100);
    EXPECT_GE(tenths, 2);
  }
  ASSERT_GE(drawn.size(), 3u);
  EXPECT_THAT(drawn[0], ::testing::StartsWith("\r\x1b[Kwork  "));
  EXPECT_EQ(drawn.back(), "\r\x1b[K");
}

TEST(Progress, ShortRunsDrawNothing) {
  std::string drawn;
  Progress("x", 10, [&](std::string_view text) { drawn += text; }).Finish();
  EXPECT_EQ(drawn, "");
}

TEST(PeakRss, GrowsWithMemory) {
  const uint64_t before = PeakRssBytes();
  ASSERT_GT(before, 1'000'000u);
  const size_t bytes = 64 << 20;
  const auto memory = std::make_unique<char[]>(bytes);
  for (size_t i = 0; i < bytes; i += 4096) *const_cast<volatile char*>(&memory[i]) = 1;
  EXPECT_GE(PeakRssBytes(), before);
  EXPECT_GE(PeakRssBytes(), bytes);
}

}  // namespace
}  // namespace nxdkit
