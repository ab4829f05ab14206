// The events that processes of a run learn of each other: a lost process, a failure, a signal, and
// the end.
#include "trainer/comm/heartbeat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <optional>

#include "lib/base/errors.h"
#include "tests/lib/eventually.h"
#include "tests/trainer/comm/memory_transport.h"

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;
using Time = std::chrono::milliseconds;

struct Loss {
  Error error{Errc::kInternal, ""};
  bool own = false;
};

// One process, with the events from its heartbeat.
class Process {
 public:
  Process(MemoryNet& net, int number, Time silence)
      : transport_(net.Join(number)), lost_(told_.get_future()) {
    Heartbeat::Options options;
    options.period = Time(10);
    options.silence = silence;
    options.on_lost = [this](const Error& error, bool own) { told_.set_value({error, own}); };
    options.take_signal = [this] { return signal.exchange(0); };
    options.on_signal = [this](int number_now) { taken = number_now; };
    heartbeat.emplace(*transport_, std::move(options));
  }
  Loss WaitForLoss() {
    if (lost_.wait_for(std::chrono::seconds(30)) == std::future_status::ready) return lost_.get();
    ADD_FAILURE() << "nothing was told";
    return {};
  }
  bool HasLost() { return lost_.wait_for(Time(0)) == std::future_status::ready; }

  std::atomic<int> signal{0}, taken{0};

 private:
  std::unique_ptr<Transport> transport_;
  std::promise<Loss> told_;
  std::future<Loss> lost_;

 public:
  std::optional<Heartbeat> heartbeat;
};

// Waits until process 0 has been answered, and the other one knows how long a silence may be.
void AwaitBeat(Process& first, Process& other) {
  first.taken = 0;
  other.signal = SIGUSR1;
  ASSERT_TRUE(testing_util::Eventually([&] { return first.taken == SIGUSR1; }));
}

TEST(Heartbeat, AProcessThatIsCutOffIsToldOfAndTellsOfTheFirst) {
  MemoryNet net(3);
  Process first(net, 0, Time(3000)), second(net, 1, Time(1)), third(net, 2, Time(1));
  for (Process* process : {&second, &third}) AwaitBeat(first, *process);
  net.Cut(2);
  const Loss at_first = first.WaitForLoss();
  EXPECT_EQ(at_first.error.code(), Errc::kLost);
  EXPECT_THAT(at_first.error.ToString(), HasSubstr("process 0: process 2 has not been heard of"));
  EXPECT_TRUE(at_first.own);
  // Reported by the process that saw it: not a guess about process 0.
  const Loss at_second = second.WaitForLoss();
  EXPECT_THAT(at_second.error.ToString(), HasSubstr("process 0: process 2 has not been heard of"));
  EXPECT_FALSE(at_second.own);
  const Loss at_third = third.WaitForLoss();
  EXPECT_THAT(at_third.error.ToString(), HasSubstr("process 2: process 0 has not been heard of"));
  EXPECT_TRUE(at_third.own);
}

TEST(Heartbeat, WhatOneFailsWithReachesAll) {
  MemoryNet net(3);
  Process first(net, 0, Time(20'000)), second(net, 1, Time(1)), third(net, 2, Time(1));
  third.heartbeat->Fail(Error(Errc::kNotFound, "no such model").in("model"));
  for (Process* process : {&first, &second}) {
    const Loss loss = process->WaitForLoss();
    EXPECT_EQ(loss.error.code(), Errc::kNotFound);
    EXPECT_THAT(loss.error.ToString(), HasSubstr("model: no such model"));
    EXPECT_FALSE(loss.own);
  }
  EXPECT_FALSE(third.HasLost());
}

TEST(Heartbeat, ProcessZeroFailsAndTheOthersKnow) {
  MemoryNet net(2);
  Process first(net, 0, Time(20'000)), second(net, 1, Time(1));
  first.heartbeat->Fail(Error(Errc::kIo, "the disk is full"));
  EXPECT_THAT(second.WaitForLoss().error.ToString(), HasSubstr("the disk is full"));
  EXPECT_FALSE(first.HasLost());
}

TEST(Heartbeat, ASignalOfOneReachesProcessZero) {
  MemoryNet net(2);
  Process first(net, 0, Time(20'000)), second(net, 1, Time(1));
  AwaitBeat(first, second);
  EXPECT_EQ(second.signal, 0);
}

TEST(Heartbeat, TheEndIsNoLoss) {
  MemoryNet net(3);
  Process first(net, 0, Time(20'000)), second(net, 1, Time(1)), third(net, 2, Time(1));
  std::jthread ends([&] { second.heartbeat->End(); });
  std::jthread ends_too([&] { third.heartbeat->End(); });
  first.heartbeat->End();
  ends.join();
  ends_too.join();
  for (Process* process : {&first, &second, &third}) {
    process->heartbeat.reset();
    EXPECT_FALSE(process->HasLost());
  }
}

}  // namespace
}  // namespace nxdkit::trainer
