// A rollout worker that runs, on this machine or another one, and how one is started here.
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
  // Its input has been ended; kills it if it still runs `grace` later. How it ended: "was killed by
  // signal 9", "exited with 1".
  virtual std::string End(std::chrono::milliseconds grace) = 0;
};

struct StartedWorker {
  std::unique_ptr<RunningWorker> running;
  Descriptor socket;  // frames go both ways (trainer/rollout/wire.h)
};

struct LocalWorkerOptions {
  std::vector<std::string> command;      // what runs RunRolloutWorker(0, 1); [0] is a path
  std::vector<std::string> environment;  // all that it gets: see WorkerEnvironment
  std::string log_file;  // that its standard error is appended to; "", or not writable: ours
  // What the kernel sends it when the thread that called this ends; 0: nothing, but its input ends
  // then.
  int signal = 0;
};

// What a worker gets of our environment (a table of names: paths, locale, libraries), and `more`
// ("NAME=value"), which wins. Never what configures Neuron devices: that is said for each side
// apart. Threads that wait for each other do not spin for long, unless `more` says so. Sorted.
std::vector<std::string> WorkerEnvironment(const std::vector<std::string>& more);

// Ours, and the worker's.
Result<std::pair<Descriptor, Descriptor>> MakeWorkerSockets();

// kNotFound when it cannot be started.
Result<StartedWorker> StartLocalWorker(const LocalWorkerOptions& options);

}  // namespace nxdkit::trainer
