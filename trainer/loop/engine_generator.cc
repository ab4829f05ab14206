#include "trainer/loop/engine_generator.h"

#include <optional>
#include <utility>

#include "trainer/loop/counting_hooks.h"

namespace nxdkit::trainer {
namespace {

class EngineGenerator : public Generator {
 public:
  EngineGenerator(const EngineOptions& options, std::function<Status()> poll, ProgressHook progress)
      : options_(options), poll_(std::move(poll)), progress_(std::move(progress)) {}

  // Destroyed first: two engines would need twice the memory.
  Status Reload(const SyncedWeights& weights) override {
    engine_.reset();
    options_.expect.serial = static_cast<int64_t>(weights.version.serial);
    options_.expect.digest = weights.digest;
    auto engine = Engine::Load(options_, poll_);
    if (!engine.ok()) return engine.error();
    engine_.emplace(*std::move(engine));
    return OkStatus();
  }

  Result<std::vector<RolloutResponse>> Generate(std::span<const RolloutRequest> requests) override {
    NXDKIT_CHECK(engine_.has_value());
    NXDKIT_ASSIGN(Generated generated,
                  engine_->Generate(requests, CountingHooks(poll_, progress_, requests.size())));
    return std::move(generated.responses);
  }

 private:
  EngineOptions options_;
  std::function<Status()> poll_;
  ProgressHook progress_;
  std::optional<Engine> engine_;
};

}  // namespace

std::unique_ptr<Generator> MakeEngineGenerator(const EngineOptions& options,
                                               std::function<Status()> poll,
                                               ProgressHook progress) {
  return std::make_unique<EngineGenerator>(options, std::move(poll), std::move(progress));
}

}  // namespace nxdkit::trainer
