// Rollout engines of this process: one by one they hold the same weights and share the requests.
#pragma once

#include <functional>
#include <memory>

#include "trainer/loop/parts.h"

namespace nxdkit::trainer {

// `options.expect` is set at every Reload. `poll` as in Engine; `progress` of the responses.
std::unique_ptr<Generator> MakeEngineGenerator(const EngineOptions& options,
                                               std::function<Status()> poll,
                                               ProgressHook progress = nullptr);

}  // namespace nxdkit::trainer
