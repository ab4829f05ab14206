// Rollout in processes of their own: each worker loads the bundle and makes a part of the
// responses. A worker that dies or falls silent is started again, and what it had not answered is
// made again; by our own engine with the same result: its responses depend on the requests alone
// (engine.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/rollout/engine.h"
#include "trainer/rollout/worker_start.h"

namespace nxdkit::trainer {

struct WorkerPoolOptions {
  int workers = 1;
  // Starts worker `index`, where that is not a process of this machine. Of what follows only
  // `log_files` is then looked at, for messages.
  std::function<Result<StartedWorker>(size_t index)> start = nullptr;
  // What runs RunRolloutWorker(0, 1); [0] is a path.
  std::vector<std::string> command;
  // "NAME=value" for all workers, and for each: NEURON_RT_VISIBLE_CORES, NEURON_COMPILED_ARTIFACTS
  // and the like. Nothing of it gets into this process, and of this process's environment the
  // workers get but a few harmless variables.
  std::vector<std::string> environment;
  std::vector<std::vector<std::string>> environment_of;  // empty, or one for each worker
  // Files that the standard error of each worker is appended to: empty, or one for each.
  // Without, or where one cannot be written, it is ours.
  std::vector<std::string> log_files;
  double silence_seconds = 120;  // a worker at work that says nothing for so long is hung
  // How long a worker that is not needed any more may take to end by itself, and with it what it
  // has started, before it is killed.
  std::chrono::milliseconds grace{0};
  // What the user should know: a worker that was started again, and why.
  std::function<void(const std::string&)> on_warning;
};

// "" where there is none.
std::string LogFileOf(const WorkerPoolOptions& options, size_t worker);
// A worker as the options say, on this machine; `place`: whose environment_of it gets.
Result<StartedWorker> StartWorkerHere(const WorkerPoolOptions& options, size_t worker,
                                      size_t place);

// Used by one thread, and destroyed before it ends: the kernel kills the workers with it.
class WorkerPool {
 public:
  // Starts the processes. kUsage for options that contradict each other.
  static Result<WorkerPool> Start(const WorkerPoolOptions& options);
  WorkerPool(WorkerPool&&) noexcept;
  WorkerPool& operator=(WorkerPool&&) noexcept;
  ~WorkerPool();  // ends all workers

  std::vector<int> pids() const;  // -1: not running
  int64_t restarts() const;       // of workers that died or fell silent, in all calls

  // Every worker loads: once per training step, after the weights were written. Errors as
  // Engine::Load; kFindings when workers loaded different weights; kIo when a worker died, or its
  // engine of another program failed, more than three times in a call. What `poll` returns ends the
  // call. Of the facts that differ between workers: the longest times, and the sums of what is
  // proved.
  Result<EngineFacts> Load(const EngineOptions& options,
                           const std::function<Status()>& poll = nullptr) {
    return Load(std::span(&options, 1), poll);
  }
  // For each worker its own, which differ only in where the engine is.
  Result<EngineFacts> Load(std::span<const EngineOptions> options,
                           const std::function<Status()>& poll = nullptr);

  // As Engine::Generate, with the requests split over the workers: runs of them of about the same
  // number, the samples of a prompt together. After an error all workers that were at work are
  // ended, and the next Load starts them again. kInternal without a Load before.
  Result<Generated> Generate(std::span<const RolloutRequest> requests,
                             const GenerateHooks& hooks = {});

 private:
  struct State;
  explicit WorkerPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Where the parts of the workers begin: [workers + 1], the last is requests.size().
std::vector<size_t> SplitRequests(std::span<const RolloutRequest> requests, int workers);

}  // namespace nxdkit::trainer
