#include "lib/base/scratch_pool.h"

#include <gtest/gtest.h>

#include <latch>

namespace nxdkit {
namespace {

struct Scratch {
  int number = 0;
};

TEST(ScratchPool, GivesBackWhatTheThreadHad) {
  ScratchPool<Scratch> pool;
  Scratch* here = nullptr;
  Scratch* there = nullptr;
  {
    const auto mine = pool.Take();
    here = &*mine;
    std::jthread([&] {
      const auto other = pool.Take();
      there = &*other;
    }).join();
    EXPECT_NE(here, there);
  }
  // `here` came back last, and the other thread is gone: always the same one.
  for (int i = 0; i < 3; ++i) EXPECT_EQ(&*pool.Take(), here);
}

TEST(ScratchPool, AnIdleOneIsBetterThanAnother) {
  ScratchPool<Scratch> pool;
  pool.Take()->number = 7;
  int found = 0;
  std::jthread([&] { found = pool.Take()->number; }).join();
  EXPECT_EQ(found, 7);
}

TEST(ScratchPool, AsManyAsWorkAtOnce) {
  ScratchPool<Scratch> pool;
  const auto a = pool.Take();
  const auto b = pool.Take();
  EXPECT_NE(&*a, &*b);
}

// Two threads that run at the same time keep their own.
TEST(ScratchPool, ThreadsDoNotSwap) {
  ScratchPool<Scratch> pool;
  std::latch both(2);
  const auto work = [&](bool& swapped) {
    Scratch* first = nullptr;
    {
      const auto mine = pool.Take();
      first = &*mine;
      both.arrive_and_wait();
    }
    for (int i = 0; i < 10'000; ++i)
      if (&*pool.Take() != first) swapped = true;
  };
  bool a = false;
  bool b = false;
  {
    const std::jthread one([&] { work(a); });
    const std::jthread two([&] { work(b); });
  }
  EXPECT_FALSE(a || b);
}

}  // namespace
}  // namespace nxdkit
