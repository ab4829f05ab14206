// PRIVATE to the trainer's .cc files. How many threads a rank's loops should use now. Threads that
// meet after every loop go as fast as the slowest of them: where another program takes a part of
// one core, two of them are slower than one that has the other core for itself. So the time that
// this process's threads wait for a processor is looked at, and where it is more than a small
// share, fewer are used for a while; then all are tried again.
//
// Measured by the kernel (/proc/self/task/*/schedstat, "time spent waiting on a runqueue"); where
// it does not say, all threads are used. What is computed does not depend on it.
#pragma once

#include <chrono>
#include <functional>

namespace nxdkit::trainer {

class CoreShare {
 public:
  using Time = std::chrono::nanoseconds;
  // What is asked: the time now, and how long all threads of this process have waited so far;
  // negative: not known. For tests.
  struct Probe {
    std::function<Time()> now;
    std::function<Time()> waited;
  };

  explicit CoreShare(int threads);
  CoreShare(int threads, Probe probe);

  // From 1 to all of them. Called before every piece of work of a millisecond or so; looks at the
  // system every 10 ms.
  int Threads();

 private:
  void Judge(double waiting);
  int all_;
  int now_;
  Probe probe_;
  Time looked_{0};      // last
  Time waited_{0};      // until then
  Time held_until_{0};  // fewer threads are used until then
  Time hold_;
  bool much_ = false;  // at the last look
};

}  // namespace nxdkit::trainer
