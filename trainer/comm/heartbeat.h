// The processes of a run hear of each other all the time, whatever they are doing: process 0 and
// each of the others exchange a message now and then. So one that is dead, stopped or cut off is
// found out within a stated time, in a phase too in which nobody waits for it; a process that fails
// tells the others why; and a signal that only one of them gets reaches process 0.
//
//   process 0   a thread for each other process: says something, waits for the answer, sleeps
//   the others  one thread: waits for process 0, answers
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "trainer/comm/transport.h"

namespace nxdkit::trainer {

class Heartbeat {
 public:
  struct Options {
    std::chrono::milliseconds period{500};
    // Of process 0, which tells the others: so long nothing is heard of a process that is lost.
    std::chrono::milliseconds silence = std::chrono::seconds(60);
    // The run cannot go on, and why: kLost, or what another process has failed with. `own`: this
    // process saw it, and is the one to tell people; when it is process 0, the others know by then,
    // those that can be reached. Called once, from a thread of the heartbeat; it may end the
    // process.
    std::function<void(const Error& error, bool own)> on_lost;
    // Of the others: a signal that came since this was asked last, 0 for none. Process 0 gets it.
    std::function<int()> take_signal = nullptr;
    std::function<void(int signal)> on_signal = nullptr;
  };

  // `transport` must outlive it.
  Heartbeat(Transport& transport, Options options);
  // As End when that was not called, but for at most a few periods.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // The other processes (of one that is not the first: process 0, and through it all) are told that
  // this one ends with an error; not longer than a few periods. Nothing is heard after it.
  void Fail(const Error& error);
  // The end of a run, in order: called by all. Process 0 tells the others, which wait for it.
  void End();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nxdkit::trainer
