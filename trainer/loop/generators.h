// The rollout engines of a run: one in this process, or workers in processes of their own.
#pragma once

#include <functional>
#include <memory>

#include "trainer/loop/parts.h"
#include "trainer/rollout/worker_pool.h"

namespace nxdkit::trainer {

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
