// The rollout engines of a run behind one interface: one in this process, or workers in processes
// of their own.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "trainer/loop/memory_estimate.h"
#include "trainer/loop/weight_sync.h"
#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

struct WorkerPoolOptions;

class Generator {
 public:
  virtual ~Generator() = default;
  // New weights are there: engines are destroyed, made again and loaded, or take them where they
  // can; they must find these weights.
  virtual Result<EngineFacts> Reload(const SyncedWeights& weights) = 0;
  virtual Result<std::vector<RolloutResponse>> Generate(
      std::span<const RolloutRequest> requests) = 0;
  // Workers that had to be started again so far.
  virtual int64_t restarts() const { return 0; }
};

// Who generates, and where the weights for it are written.
struct RunEngines {
  EngineShape shape;
  SyncTarget sync;
  std::unique_ptr<Generator> generator;
};

// How much of the phase under way is done: responses, scores, rows. Called from any thread.
using ProgressHook = std::function<void(int64_t done, int64_t units)>;

// What `engine` says of the weights is set at every Reload. `poll` as in Engine; `progress` of the
// responses, may be empty.
std::unique_ptr<Generator> MakeEngineGenerator(const EngineOptions& engine,
                                               std::function<Status()> poll,
                                               ProgressHook progress = nullptr);

// Starts the workers; used and destroyed by the calling thread. `engines`: one for all workers, or
// one for each.
Result<std::unique_ptr<Generator>> MakeWorkerGenerator(const WorkerPoolOptions& pool,
                                                       const std::vector<EngineOptions>& engines,
                                                       std::function<Status()> poll,
                                                       ProgressHook progress = nullptr);

}  // namespace nxdkit::trainer
