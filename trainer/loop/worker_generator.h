// Rollout workers as the generator of a run.
#pragma once

#include <functional>
#include <memory>

#include "trainer/loop/parts.h"
#include "trainer/rollout/worker_pool.h"

namespace nxdkit::trainer {

// Starts the workers; used and destroyed by the calling thread. `engine.expect` is set at every
// Reload.
Result<std::unique_ptr<Generator>> MakeWorkerGenerator(const WorkerPoolOptions& pool,
                                                       const EngineOptions& engine,
                                                       std::function<Status()> poll,
                                                       ProgressHook progress = nullptr);

}  // namespace nxdkit::trainer
