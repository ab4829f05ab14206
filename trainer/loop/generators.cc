#include "trainer/loop/generators.h"

#include <optional>
#include <utility>

namespace nxdkit::trainer {
namespace {

// The engine of this process, as a pool of workers is used.
class OwnEngine {
 public:
  // Destroyed first: two engines would need twice the memory.
  Result<EngineFacts> Load(const EngineOptions& options, const std::function<Status()>& poll) {
    engine_.reset();
    NXDKIT_ASSIGN(engine_, Engine::Load(options, poll));
    return engine_->facts();
  }
  Result<Generated> Generate(std::span<const RolloutRequest> requests, const GenerateHooks& hooks) {
    NXDKIT_CHECK(engine_.has_value());
    return engine_->Generate(requests, hooks);
  }
  int64_t restarts() const { return 0; }

 private:
  std::optional<Engine> engine_;
};

// Tells an OwnEngine or a WorkerPool which weights to expect, and counts responses as they come.
template <typename Rollout>
class GeneratorOf : public Generator {
 public:
  GeneratorOf(Rollout rollout, const EngineOptions& options, std::function<Status()> poll,
              ProgressHook progress)
      : rollout_(std::move(rollout)),
        options_(options),
        poll_(std::move(poll)),
        progress_(std::move(progress)) {}

  Status Reload(const SyncedWeights& weights) override {
    options_.expect.serial = weights.version.serial;
    options_.expect.digest = weights.digest;
    NXDKIT_TRY(rollout_.Load(options_, poll_));
    return OkStatus();
  }

  Result<std::vector<RolloutResponse>> Generate(std::span<const RolloutRequest> requests) override {
    GenerateHooks hooks{.poll = poll_, .on_response = nullptr};
    int64_t done = 0;
    if (progress_) {
      progress_(0, std::ssize(requests));
      hooks.on_response = [&](size_t, const RolloutResponse&) {
        progress_(++done, std::ssize(requests));
      };
    }
    NXDKIT_ASSIGN(Generated generated, rollout_.Generate(requests, hooks));
    return std::move(generated.responses);
  }

  int64_t restarts() const override { return rollout_.restarts(); }

 private:
  Rollout rollout_;
  EngineOptions options_;
  const std::function<Status()> poll_;
  const ProgressHook progress_;
};

}  // namespace

std::unique_ptr<Generator> MakeEngineGenerator(const EngineOptions& engine,
                                               std::function<Status()> poll,
                                               ProgressHook progress) {
  return std::make_unique<GeneratorOf<OwnEngine>>(OwnEngine(), engine, std::move(poll),
                                                  std::move(progress));
}

Result<std::unique_ptr<Generator>> MakeWorkerGenerator(const WorkerPoolOptions& pool,
                                                       const EngineOptions& engine,
                                                       std::function<Status()> poll,
                                                       ProgressHook progress) {
  NXDKIT_ASSIGN(WorkerPool started, WorkerPool::Start(pool));
  return std::unique_ptr<Generator>(std::make_unique<GeneratorOf<WorkerPool>>(
      std::move(started), engine, std::move(poll), std::move(progress)));
}

}  // namespace nxdkit::trainer
