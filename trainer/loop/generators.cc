#include "trainer/loop/generators.h"

#include <utility>

namespace nxdkit::trainer {

Generator::Generator(std::unique_ptr<RolloutEngine> here, std::optional<WorkerPool> workers,
                     std::vector<EngineOptions> options, std::function<Status()> poll,
                     ProgressHook progress)
    : here_(std::move(here)),
      workers_(std::move(workers)),
      options_(std::move(options)),
      poll_(std::move(poll)),
      progress_(std::move(progress)) {}

Result<EngineFacts> Generator::Reload(const SyncedWeights& weights) {
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
  return workers_ ? workers_->Load(options_, poll_) : here_->Load(options_[0], poll_);
}

Result<std::vector<RolloutResponse>> Generator::Generate(std::span<const RolloutRequest> requests) {
  GenerateHooks hooks{.poll = poll_, .on_response = nullptr};
  int64_t done = 0;
  if (progress_) {
    progress_(0, std::ssize(requests));
    hooks.on_response = [&](size_t, const RolloutResponse&) {
      progress_(++done, std::ssize(requests));
    };
  }
  NXDKIT_ASSIGN(Generated generated,
                workers_ ? workers_->Generate(requests, hooks) : here_->Generate(requests, hooks));
  return std::move(generated.responses);
}

std::unique_ptr<Generator> MakeEngineGenerator(const EngineOptions& engine,
                                               std::function<Status()> poll,
                                               ProgressHook progress) {
  Result<std::unique_ptr<RolloutEngine>> own = MakeOwnEngine(engine.kind);
  NXDKIT_CHECK(own.ok());
  return std::make_unique<Generator>(*std::move(own), std::nullopt, std::vector{engine},
                                     std::move(poll), std::move(progress));
}

Result<std::unique_ptr<Generator>> MakeWorkerGenerator(const WorkerPoolOptions& pool,
                                                       const std::vector<EngineOptions>& engines,
                                                       std::function<Status()> poll,
                                                       ProgressHook progress) {
  NXDKIT_ASSIGN(WorkerPool started, WorkerPool::Start(pool));
  return std::make_unique<Generator>(nullptr, std::move(started), engines, std::move(poll),
                                     std::move(progress));
}

}  // namespace nxdkit::trainer
