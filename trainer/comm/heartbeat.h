// Heartbeats between the processes of a run, whatever they are doing: process 0 and each of the
// others exchange a message at intervals. A process that is dead, stopped or cut off is thus
// detected within a stated time, even in a phase in which nobody waits for it; a failing process
// tells the others why; and a signal that reaches only one of them is passed to process 0.
//
//  process 0   a thread for each other process: sends, waits for the answer, sleeps
//  the others  one thread: waits for process 0, answers
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
    // Set in process 0, which sends it to the others: the silence after which a process is lost.
    std::chrono::milliseconds silence = std::chrono::seconds(60);
    // Called when the run cannot go on, with the reason: kLost, or the error of another process.
    // `own`: this process saw it and should report it; if it is process 0, all reachable processes
    // know by then. Called once, from a heartbeat thread; it may end the process.
    std::function<void(const Error& error, bool own)> on_lost;
    // Set in the other processes: the signal received since the last call, 0 for none. It is passed
    // to process 0.
    std::function<int()> take_signal = nullptr;
    std::function<void(int signal)> on_signal = nullptr;
  };

  // `transport` must outlive it.
  Heartbeat(Transport& transport, Options options);
  // Does what End does if that was not called, but waits for at most a few periods.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // Tells the other processes that this one ends with an error (process 0 tells all; another one
  // tells process 0, which tells the rest). Takes at most a few periods. Nothing is received after
  // it.
  void Fail(const Error& error);
  // The orderly end of a run, called by all. Process 0 tells the others, which wait for it.
  void End();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nxdkit::trainer
