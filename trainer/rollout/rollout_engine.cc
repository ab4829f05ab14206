#include "trainer/rollout/rollout_engine.h"

#include <optional>

#include "lib/base/errors.h"
#include "lib/base/stopwatch.h"

namespace nxdkit::trainer {
namespace {

class OwnEngine : public RolloutEngine {
 public:
  // The old one is destroyed first: two engines would need twice the memory.
  Result<EngineFacts> Load(const EngineOptions& options,
                           const std::function<Status()>& poll) override {
    const Stopwatch watch;
    engine_.reset();
    NXDKIT_ASSIGN(engine_, Engine::Load(options, poll));
    EngineFacts facts = engine_->facts();
    facts.seconds = {{"load", watch.Seconds()}};
    facts.proved = options.expect.digest.empty() ? 0 : 1;
    return facts;
  }

  Result<Generated> Generate(std::span<const RolloutRequest> requests,
                             const GenerateHooks& hooks) override {
    if (!engine_) return Error(Errc::kInternal, "no engine is loaded");
    return engine_->Generate(requests, hooks);
  }

 private:
  std::optional<Engine> engine_;
};

}  // namespace

Result<std::unique_ptr<RolloutEngine>> MakeOwnEngine(EngineKind kind) {
  if (kind != EngineKind::kCpu) return Unsupported("this worker has only its own engine");
  return std::unique_ptr<RolloutEngine>(std::make_unique<OwnEngine>());
}

}  // namespace nxdkit::trainer
