// PRIVATE to the trainer's .cc files. The number of threads that a rank's loops should use now.
// Threads that meet after every loop are as fast as the slowest of them: where another program
// takes part of one core, two threads are slower than one that has the other core to itself. So the
// time that this process's threads wait for a processor is measured; when it exceeds a small share,
// fewer threads are used for a while, and then all are tried again.
//
// The kernel measures it (/proc/self/task/*/schedstat, "time spent waiting on a runqueue"); where
// that file is missing, all threads are used. Computed results do not depend on it.
#pragma once

#include <chrono>
#include <functional>

namespace nxdkit::trainer {

class CoreShare {
 public:
  using Time = std::chrono::nanoseconds;
  // A measurement: the time now, and how long all threads of this process have waited so far;
  // negative: unknown. Tests replace it.
  struct Probe {
    std::function<Time()> now;
    std::function<Time()> waited;
  };

  explicit CoreShare(int threads);
  CoreShare(int threads, Probe probe);

  // From 1 to the number of all threads. Called before every piece of work of a millisecond or so;
  // asks the kernel every 10 ms.
  int Threads();

 private:
  void Judge(double waiting);
  int all_;
  int now_;
  Probe probe_;
  Time looked_{0};      // at the last look
  Time waited_{0};      // up to the last look
  Time held_until_{0};  // fewer threads are used until this time
  Time hold_;
  bool much_ = false;  // too much waiting at the last look
};

}  // namespace nxdkit::trainer
