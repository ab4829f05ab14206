// A running rollout worker, on this or another machine, and how to start one on this machine.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/system/descriptor.h"

namespace nxdkit::trainer {

// Ended with the object, at once.
class RunningWorker {
 public:
  virtual ~RunningWorker() = default;
  virtual pid_t pid() const = 0;  // on its machine
  // Its input has been closed; kills it if it still runs `grace` later. Returns how it ended: "was
  // killed by signal 9", "exited with 1".
  virtual std::string End(std::chrono::milliseconds grace) = 0;
};

struct StartedWorker {
  std::unique_ptr<RunningWorker> running;
  Descriptor socket;  // carries frames both ways (trainer/rollout/wire.h)
};

struct LocalWorkerOptions {
  std::vector<std::string> command;      // runs RunRolloutWorker(0, 1); [0] is a path
  std::vector<std::string> environment;  // its whole environment: see WorkerEnvironment
  std::string log_file;  // its standard error is appended to it; "", or not writable: to ours
  // The signal that the kernel sends it when the thread that called this ends; 0: none, but its
  // input ends then.
  int signal = 0;
};

// The variables that a worker gets from our environment (a table of names: paths, locale,
// libraries), and `more` ("NAME=value"), which wins. Never those that configure Neuron devices:
// they are set separately for each side. Threads that wait for each other do not spin for long,
// unless `more` sets it. Sorted.
std::vector<std::string> WorkerEnvironment(const std::vector<std::string>& more);

// Ours, and the worker's.
Result<std::pair<Descriptor, Descriptor>> MakeWorkerSockets();

// kNotFound when it cannot be started.
Result<StartedWorker> StartLocalWorker(const LocalWorkerOptions& options);

}  // namespace nxdkit::trainer
