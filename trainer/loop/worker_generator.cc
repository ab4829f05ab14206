#include "trainer/loop/worker_generator.h"

#include <utility>

#include "trainer/loop/counting_hooks.h"

namespace nxdkit::trainer {
namespace {

class WorkerGenerator : public Generator {
 public:
  WorkerGenerator(WorkerPool pool, const EngineOptions& engine, std::function<Status()> poll,
                  ProgressHook progress, std::shared_ptr<int64_t> restarts)
      : pool_(std::move(pool)),
        engine_(engine),
        poll_(std::move(poll)),
        progress_(std::move(progress)),
        restarts_(std::move(restarts)) {}

  Status Reload(const SyncedWeights& weights) override {
    engine_.expect.serial = static_cast<int64_t>(weights.version.serial);
    engine_.expect.digest = weights.digest;
    const auto loaded = pool_.Load(engine_, poll_);
    return loaded.ok() ? OkStatus() : Status(loaded.error());
  }

  Result<std::vector<RolloutResponse>> Generate(std::span<const RolloutRequest> requests) override {
    NXDKIT_ASSIGN(Generated generated,
                  pool_.Generate(requests, CountingHooks(poll_, progress_, requests.size())));
    return std::move(generated.responses);
  }
  int64_t restarts() const override { return *restarts_; }

 private:
  WorkerPool pool_;
  EngineOptions engine_;
  std::function<Status()> poll_;
  ProgressHook progress_;
  std::shared_ptr<int64_t> restarts_;
};

}  // namespace

Result<std::unique_ptr<Generator>> MakeWorkerGenerator(const WorkerPoolOptions& pool,
                                                       const EngineOptions& engine,
                                                       std::function<Status()> poll,
                                                       ProgressHook progress) {
  const auto restarts = std::make_shared<int64_t>(0);
  WorkerPoolOptions options = pool;
  options.on_warning = [restarts, tell = pool.on_warning](const std::string& warning) {
    ++*restarts;
    if (tell) tell(warning);
  };
  auto started = WorkerPool::Start(options);
  if (!started.ok()) return started.error();
  return std::unique_ptr<Generator>(std::make_unique<WorkerGenerator>(
      *std::move(started), engine, std::move(poll), std::move(progress), restarts));
}

}  // namespace nxdkit::trainer
