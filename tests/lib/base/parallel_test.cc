#include "lib/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <string>
#include <vector>

#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using testing_util::ExpectError;

TEST(ParallelFor, EveryIndexOnce) {
  for (const int threads : {-1, 1, 2, 7, 64}) {
    std::vector<std::atomic<int>> done(33);
    const Status status = ParallelFor(done.size(), threads, [&](size_t i) {
      ++done[i];
      return OkStatus();
    });
    EXPECT_TRUE(status.ok());
    for (const auto& times : done) EXPECT_EQ(times, 1);
  }
}

TEST(ParallelFor, FailureOfTheLowestIndexAndNoMoreWork) {
  for (const int threads : {1, 2, 8}) {
    std::atomic<size_t> begun = 0;
    const Status status = ParallelFor(1'000'000, threads, [&](size_t i) -> Status {
      ++begun;
      if (i < 5) return OkStatus();
      return Error(Errc::kCorrupt, "index " + std::to_string(i) + ".");
    });
    ExpectError(status, Errc::kCorrupt, "index 5.");
    EXPECT_LE(begun, 6u + 2 * static_cast<size_t>(threads));
  }
}

TEST(ParallelFor, ABodyForEachThread) {
  std::atomic<int> bodies = 0;
  std::atomic<size_t> sum = 0;
  const Status status = ParallelFor(100, 3, [&]() -> LoopBody {
    ++bodies;
    return [&](size_t i) {
      sum += i;
      return OkStatus();
    };
  });
  EXPECT_TRUE(status.ok());
  EXPECT_LE(bodies, 3);
  EXPECT_EQ(sum, 4950u);
}

TEST(ParallelFor, NothingToDoMakesNoBody) {
  const Status status = ParallelFor(0, 3, []() -> LoopBody {
    ADD_FAILURE();
    return {};
  });
  EXPECT_TRUE(status.ok());
}

TEST(ParallelFor, NoMemoryIsALimit) {
  for (const int threads : {1, 4})
    ExpectError(ParallelFor(3, threads, [](size_t) -> Status { throw std::bad_alloc(); }),
                Errc::kLimit, "no more memory");
}

}  // namespace
}  // namespace nxdkit
