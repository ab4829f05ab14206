// Rollout in separate processes: each worker loads the bundle and makes part of the responses. A
// worker that dies or falls silent is restarted, and its unanswered requests are repeated; our own
// engine gives the same result, since its responses depend on the requests alone (engine.h).
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
  // Starts worker `index`, if that is not simply a process on this machine. Of the options below
  // only `log_files` is then used, for messages.
  std::function<Result<StartedWorker>(size_t index)> start = nullptr;
  // The command that runs RunRolloutWorker(0, 1); [0] is a path.
  std::vector<std::string> command;
  // "NAME=value" for all workers, and for each: NEURON_RT_VISIBLE_CORES, NEURON_COMPILED_ARTIFACTS
  // and similar. None of it gets into this process, and workers get only a few harmless variables
  // of this process's environment.
  std::vector<std::string> environment;
  std::vector<std::vector<std::string>> environment_of;  // empty, or one for each worker
  // Files to which each worker's standard error is appended: empty, or one for each. Without them,
  // or if one cannot be written, it goes to our standard error.
  std::vector<std::string> log_files;
  double silence_seconds = 120;  // a busy worker that is silent for so long hangs
  // The time that a worker no longer needed, and all it has started, may take to end before it is
  // killed.
  std::chrono::milliseconds grace{0};
  // Remarks for the user: a worker that was restarted, and why.
  std::function<void(const std::string&)> on_warning;
};

// "" if there is none.
std::string LogFileOf(const WorkerPoolOptions& options, size_t worker);
// Starts a worker with these options on this machine; `place`: the index of its environment_of.
Result<StartedWorker> StartWorkerHere(const WorkerPoolOptions& options, size_t worker,
                                      size_t place);

// Used by one thread, and destroyed before that ends: the kernel kills the workers with it.
class WorkerPool {
 public:
  // Starts the processes. kUsage for options that contradict each other.
  static Result<WorkerPool> Start(const WorkerPoolOptions& options);
  WorkerPool(WorkerPool&&) noexcept;
  WorkerPool& operator=(WorkerPool&&) noexcept;
  ~WorkerPool();  // ends all workers

  std::vector<int> pids() const;  // -1: not running
  int64_t restarts() const;       // workers that died or fell silent, in all calls

  // Loads in every worker: once per training step, after the weights were written. Errors as
  // Engine::Load; kFindings when workers loaded different weights; kIo when a worker died, or its
  // engine of another program failed, more than three times in a call. An error of `poll` ends the
  // call. Facts that differ between workers are combined: the longest times, and the sums of
  // proofs.
  Result<EngineFacts> Load(const EngineOptions& options,
                           const std::function<Status()>& poll = nullptr) {
    return Load(std::span(&options, 1), poll);
  }
  // With separate options for each worker, which differ only in the place of the engine.
  Result<EngineFacts> Load(std::span<const EngineOptions> options,
                           const std::function<Status()>& poll = nullptr);

  // As Engine::Generate, with the requests split over the workers: consecutive ones of about the
  // same number, the samples of a prompt together. After an error all busy workers are killed, and
  // the next Load starts them again. kInternal without an earlier Load.
  Result<Generated> Generate(std::span<const RolloutRequest> requests,
                             const GenerateHooks& hooks = {});

 private:
  struct State;
  explicit WorkerPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The beginnings of the workers' parts: [workers + 1], the last is requests.size().
std::vector<size_t> SplitRequests(std::span<const RolloutRequest> requests, int workers);

}  // namespace nxdkit::trainer
