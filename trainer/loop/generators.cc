#include "trainer/loop/generators.h"

#include <utility>

#include "lib/base/errors.h"
#include "trainer/rollout/rollout_engine.h"
#include "trainer/rollout/worker_pool.h"

namespace nxdkit::trainer {
namespace {

// The engine of this process, as a pool of workers is used.
class EngineHere {
 public:
  explicit EngineHere(std::unique_ptr<RolloutEngine> engine) : engine_(std::move(engine)) {}
  Result<EngineFacts> Load(std::span<const EngineOptions> options,
                           const std::function<Status()>& poll) {
    return engine_->Load(options[0], poll);
  }
  Result<Generated> Generate(std::span<const RolloutRequest> requests, const GenerateHooks& hooks) {
    return engine_->Generate(requests, hooks);
  }
  int64_t restarts() const { return 0; }

 private:
  std::unique_ptr<RolloutEngine> engine_;
};

// Tells an EngineHere or a WorkerPool which weights to expect, and counts responses as they come.
template <typename Rollout>
class GeneratorOf : public Generator {
 public:
  GeneratorOf(Rollout rollout, std::vector<EngineOptions> options, std::function<Status()> poll,
              ProgressHook progress)
      : rollout_(std::move(rollout)),
        options_(std::move(options)),
        poll_(std::move(poll)),
        progress_(std::move(progress)) {}

  Result<EngineFacts> Reload(const SyncedWeights& weights) override {
    for (EngineOptions& options : options_) {
      options.bundle = weights.path;
      if (options.kind == EngineKind::kCpu) {
        options.expect.serial = weights.version.serial;
        options.expect.digest = weights.digest;
      } else {
        options.other.version = weights.version.label;
        options.other.parameters = weights.parameters;
      }
    }
    return rollout_.Load(options_, poll_);
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
  std::vector<EngineOptions> options_;
  const std::function<Status()> poll_;
  const ProgressHook progress_;
};

}  // namespace

std::unique_ptr<Generator> MakeEngineGenerator(const EngineOptions& engine,
                                               std::function<Status()> poll,
                                               ProgressHook progress) {
  Result<std::unique_ptr<RolloutEngine>> own = MakeOwnEngine(engine.kind);
  NXDKIT_CHECK(own.ok());
  return std::make_unique<GeneratorOf<EngineHere>>(EngineHere(*std::move(own)), std::vector{engine},
                                                   std::move(poll), std::move(progress));
}

Result<std::unique_ptr<Generator>> MakeWorkerGenerator(const WorkerPoolOptions& pool,
                                                       const std::vector<EngineOptions>& engines,
                                                       std::function<Status()> poll,
                                                       ProgressHook progress) {
  NXDKIT_ASSIGN(WorkerPool started, WorkerPool::Start(pool));
  return std::unique_ptr<Generator>(std::make_unique<GeneratorOf<WorkerPool>>(
      std::move(started), engines, std::move(poll), std::move(progress)));
}

}  // namespace nxdkit::trainer
