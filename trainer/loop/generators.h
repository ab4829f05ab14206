// The rollout engines of a run: one in this process, or workers in processes of their own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trainer/loop/memory_estimate.h"
#include "trainer/loop/weight_sync.h"
#include "trainer/rollout/rollout_engine.h"
#include "trainer/rollout/worker_pool.h"

namespace nxdkit::trainer {

// The progress of the current phase: responses, scores, rows. Called from any thread.
using ProgressHook = std::function<void(int64_t done, int64_t units)>;

// Used and destroyed by the thread that creates it. Every Reload sets the weights in `options`.
// `poll` as in Engine; `progress` of the responses, may be empty.
class Generator {
 public:
  Generator(std::unique_ptr<RolloutEngine> here, std::optional<WorkerPool> workers,
            std::vector<EngineOptions> options, std::function<Status()> poll,
            ProgressHook progress);

  // Takes new weights: engines are destroyed, created and loaded again, or reload if they can; they
  // must find these weights.
  Result<EngineFacts> Reload(const SyncedWeights& weights);
  Result<std::vector<RolloutResponse>> Generate(std::span<const RolloutRequest> requests);
  // The number of worker restarts so far.
  int64_t restarts() const { return workers_ ? workers_->restarts() : 0; }

 private:
  std::unique_ptr<RolloutEngine> here_;  // or
  std::optional<WorkerPool> workers_;
  std::vector<EngineOptions> options_;
  const std::function<Status()> poll_;
  const ProgressHook progress_;
};

// The engines of a run, and the place where weights are written for them.
struct RunEngines {
  EngineShape shape;
  SyncTarget sync;
  std::unique_ptr<Generator> generator;
};

std::unique_ptr<Generator> MakeEngineGenerator(const EngineOptions& engine,
                                               std::function<Status()> poll,
                                               ProgressHook progress = nullptr);

// Starts the workers. `engines`: one for all workers, or one for each.
Result<std::unique_ptr<Generator>> MakeWorkerGenerator(const WorkerPoolOptions& pool,
                                                       const std::vector<EngineOptions>& engines,
                                                       std::function<Status()> poll,
                                                       ProgressHook progress = nullptr);

}  // namespace nxdkit::trainer
