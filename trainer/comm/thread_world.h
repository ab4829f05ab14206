// The default engine: the ranks are threads of this process.
#pragma once

#include <functional>

#include "trainer/comm/comm.h"

namespace nxdkit::trainer {

// Threads that stay, one per rank, each with its communicator of the world.
class ThreadWorld {
 public:
  // `threads_per_rank`: for the loops and products of each rank (trainer/base/parallel.h).
  explicit ThreadWorld(int ranks, int threads_per_rank = 1);
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  int size() const;
  // Runs `body` on every rank and waits for all. When a body returns an error, collectives that
  // other ranks wait in (or enter later) fail with kInterrupted instead of waiting for ever, and
  // so does everything that this world is asked afterwards. Returns the error of the lowest rank
  // that is not such an echo. Called from one thread at a time. The communicators live as long as
  // the world.
  Status Run(const std::function<Status(Comm& world)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A world for one body.
Status RunThreadWorld(int ranks, const std::function<Status(Comm& world)>& body);

}  // namespace nxdkit::trainer
