// The interface of the engine in a worker, whatever implements it.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

// One call at a time. Load is called again for every new version of the weights.
class RolloutEngine {
 public:
  virtual ~RolloutEngine() = default;
  // Returns the facts, with seconds, proved and not_covered. kFindings for weights that are not the
  // expected ones. For another program's engine kIo means that it has failed, and that another
  // attempt from the beginning may succeed.
  virtual Result<EngineFacts> Load(const EngineOptions& options,
                                   const std::function<Status()>& poll) = 0;
  // As Engine::Generate.
  virtual Result<Generated> Generate(std::span<const RolloutRequest> requests,
                                     const GenerateHooks& hooks) = 0;
};

using EngineMaker = std::function<Result<std::unique_ptr<RolloutEngine>>(EngineKind kind)>;

// The engine of engine.h; kUnsupported for other kinds.
Result<std::unique_ptr<RolloutEngine>> MakeOwnEngine(EngineKind kind);

}  // namespace nxdkit::trainer
