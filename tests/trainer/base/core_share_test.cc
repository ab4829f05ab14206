// Threads next to a busy neighbour: fewer while it runs, all when it has ended.
#include "trainer/base/core_share.h"

#include <gtest/gtest.h>

namespace nxdkit::trainer {
namespace {

using namespace std::chrono_literals;

// A machine with a manual clock, where threads of ours wait for `waiting` of the time.
struct Machine {
  CoreShare::Time time{0}, waited{0};
  CoreShare Share(int threads) {
    return CoreShare(threads, {[this] { return time; }, [this] { return waited; }});
  }
  void Pass(CoreShare::Time more, double waiting) {
    time += more;
    waited += std::chrono::duration_cast<CoreShare::Time>(more * waiting);
  }
};

TEST(CoreShare, AllThreadsWhereNobodyElseIs) {
  Machine machine;
  CoreShare share = machine.Share(4);
  for (int i = 0; i < 100; ++i) {
    machine.Pass(5ms, i % 20 == 0 ? 0.6 : 0.05);
    EXPECT_EQ(share.Threads(), 4);
  }
}

TEST(CoreShare, FewerBesideANeighbourAndAllWhenItIsGone) {
  Machine machine;
  CoreShare share = machine.Share(2);
  machine.Pass(21ms, 0.6);
  EXPECT_EQ(share.Threads(), 2) << "once may be chance";
  machine.Pass(21ms, 0.6);
  EXPECT_EQ(share.Threads(), 1);
  int all = 0;
  for (int i = 0; i < 1000; ++i) {  // 21 s: two threads wait, one does not
    machine.Pass(21ms, share.Threads() == 2 ? 0.6 : 0.0);
    all += share.Threads() == 2 ? 1 : 0;
  }
  EXPECT_GT(all, 8) << "it is tried again";
  EXPECT_LT(all, 30) << "but seldom";
  for (int i = 0; i < 200; ++i) {
    machine.Pass(21ms, 0.0);
    share.Threads();
  }
  EXPECT_EQ(share.Threads(), 2);
  for (int i = 0; i < 2; ++i) {
    machine.Pass(21ms, 0.6);
    share.Threads();
  }
  EXPECT_EQ(share.Threads(), 1);
  machine.Pass(501ms, 0.0);
  EXPECT_EQ(share.Threads(), 2) << "a new neighbour is not held against an old one's time";
}

TEST(CoreShare, OfManyThreadsOnlyAsManyAsWait) {
  Machine machine;
  CoreShare share = machine.Share(8);
  for (int i = 0; i < 2; ++i) {
    machine.Pass(30ms, 1.4);
    share.Threads();
  }
  EXPECT_EQ(share.Threads(), 6);
}

TEST(CoreShare, OneStaysOneAndNothingKnownIsAll) {
  Machine machine;
  CoreShare one = machine.Share(1);
  machine.Pass(1s, 1.0);
  EXPECT_EQ(one.Threads(), 1);
  machine.waited = CoreShare::Time(-1);
  CoreShare blind = machine.Share(4);
  machine.Pass(1s, 1.0);
  EXPECT_EQ(blind.Threads(), 4);
}

TEST(CoreShare, ReadsTheSystem) {
  CoreShare share(3);
  EXPECT_GE(share.Threads(), 1);
  EXPECT_LE(share.Threads(), 3);
}

}  // namespace
}  // namespace nxdkit::trainer
