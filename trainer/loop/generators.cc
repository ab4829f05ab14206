#include "trainer/loop/generators.h"

#include <optional>
#include <utility>

namespace nxdkit::trainer {
namespace {

// What both do: the weights to expect, and responses counted as they come.
class EngineUser : public Generator {
 public:
  EngineUser(const EngineOptions& options, std::function<Status()> poll, ProgressHook progress)
      : options_(options), poll_(std::move(poll)), progress_(std::move(progress)) {}

  Status Reload(const SyncedWeights& weights) override {
    options_.expect.serial = weights.version.serial;
    options_.expect.digest = weights.digest;
    return Load(options_, poll_);
  }

  Result<std::vector<RolloutResponse>> Generate(std::span<const RolloutRequest> requests) override {
    const auto all = static_cast<int64_t>(requests.size());
    GenerateHooks hooks{.poll = poll_, .on_response = nullptr};
    int64_t done = 0;
    if (progress_) {
      progress_(0, all);
      hooks.on_response = [&](size_t, const RolloutResponse&) { progress_(++done, all); };
    }
    NXDKIT_ASSIGN(Generated generated, Run(requests, hooks));
    return std::move(generated.responses);
  }

 private:
  virtual Status Load(const EngineOptions& options, const std::function<Status()>& poll) = 0;
  virtual Result<Generated> Run(std::span<const RolloutRequest> requests,
                                const GenerateHooks& hooks) = 0;

  EngineOptions options_;
  const std::function<Status()> poll_;
  const ProgressHook progress_;
};

class EngineGenerator : public EngineUser {
 public:
  using EngineUser::EngineUser;

 private:
  // Destroyed first: two engines would need twice the memory.
  Status Load(const EngineOptions& options, const std::function<Status()>& poll) override {
    engine_.reset();
    NXDKIT_ASSIGN(engine_, Engine::Load(options, poll));
    return OkStatus();
  }
  Result<Generated> Run(std::span<const RolloutRequest> requests,
                        const GenerateHooks& hooks) override {
    NXDKIT_CHECK(engine_.has_value());
    return engine_->Generate(requests, hooks);
  }

  std::optional<Engine> engine_;
};

class WorkerGenerator : public EngineUser {
 public:
  WorkerGenerator(WorkerPool pool, const EngineOptions& engine, std::function<Status()> poll,
                  ProgressHook progress)
      : EngineUser(engine, std::move(poll), std::move(progress)), pool_(std::move(pool)) {}
  int64_t restarts() const override { return pool_.restarts(); }

 private:
  Status Load(const EngineOptions& options, const std::function<Status()>& poll) override {
    const auto loaded = pool_.Load(options, poll);
    return loaded.ok() ? OkStatus() : Status(loaded.error());
  }
  Result<Generated> Run(std::span<const RolloutRequest> requests,
                        const GenerateHooks& hooks) override {
    return pool_.Generate(requests, hooks);
  }

  WorkerPool pool_;
};

}  // namespace

std::unique_ptr<Generator> MakeEngineGenerator(const EngineOptions& engine,
                                               std::function<Status()> poll,
                                               ProgressHook progress) {
  return std::make_unique<EngineGenerator>(engine, std::move(poll), std::move(progress));
}

Result<std::unique_ptr<Generator>> MakeWorkerGenerator(const WorkerPoolOptions& pool,
                                                       const EngineOptions& engine,
                                                       std::function<Status()> poll,
                                                       ProgressHook progress) {
  NXDKIT_ASSIGN(WorkerPool started, WorkerPool::Start(pool));
  return std::unique_ptr<Generator>(std::make_unique<WorkerGenerator>(
      std::move(started), engine, std::move(poll), std::move(progress)));
}

}  // namespace nxdkit::trainer
