#include "trainer/loop/launch.h"

#include <fmt/core.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/process.h"
#include "trainer/comm/mpi_transport.h"
#include "trainer/learner/follow.h"
#include "trainer/learner/followers.h"
#include "trainer/loop/deliveries.h"
#include "trainer/loop/remote_workers.h"

namespace nxdkit::trainer {
namespace {

// The longest wait for a rank of a mesh: one may have much more to compute than another.
constexpr auto kPatience = std::chrono::minutes(10);
constexpr auto kLast = std::chrono::milliseconds(300);
// MPI begins when all processes have arrived, and ends when all have ended.
constexpr auto kToBegin = std::chrono::minutes(10);
constexpr auto kToEnd = std::chrono::minutes(1);

// Calls a function when a call of MPI, which cannot be cut short, takes too long.
class Deadline {
 public:
  Deadline(std::chrono::seconds most, const std::function<void(const Error&, bool)>& on_lost,
           std::string_view what)
      : thread_([=, this,
                 error = Error(Errc::kLost, fmt::format("{} has not finished after {} s", what,
                                                        most.count()))](std::stop_token) {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, most, [this] { return over_; }) && on_lost)
            on_lost(error, true);
        }) {}
  ~Deadline() {
    const std::scoped_lock lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::jthread thread_;
};

Result<std::unique_ptr<Transport>> Begin(const LaunchOptions& options) {
  const Deadline deadline(kToBegin, options.heartbeat.on_lost, "the start of MPI");
  return StartMpi({options.plugin, kPatience});
}

}  // namespace

// RANK and WORLD_SIZE alone may come from anywhere; with one of the others they come from torchrun,
// or from an operator for torch.distributed. Job scripts export them for other steps too, so if MPI
// or srun has started the processes, only torchrun's own variable counts.
Status CheckLauncher() {
  const int64_t processes = ParseNumber<int64_t>(EnvironmentValue("WORLD_SIZE")).value_or(1);
  const auto is_set = [](const char* name) { return !EnvironmentValue(name).empty(); };
  const bool by_torchrun = is_set("TORCHELASTIC_RUN_ID");
  const bool by_torch = is_set("RANK") && (is_set("LOCAL_RANK") || is_set("MASTER_ADDR"));
  if (processes < 2 || !(by_torchrun || (by_torch && LaunchedProcesses() == 1))) return OkStatus();
  return BadUsage(
             "{} has started {} processes (WORLD_SIZE), and this is RANK {}: each would train a "
             "separate run",
             by_torchrun ? "torchrun" : "a launcher of torch.distributed", processes,
             EscapeControl(EnvironmentValue("RANK")))
      .member("WORLD_SIZE")
      .hint(
          "start one process on each machine by mpirun --map-by ppr:1:node --bind-to none, or by "
          "srun --ntasks-per-node=1 --mpi=pmix; its ranks are threads (trainer.cores)");
}

Launch::Launch() = default;
Launch::Launch(Launch&&) noexcept = default;

Result<Launch> Launch::Start(const RunPlan& plan, const LaunchOptions& options) {
  Launch launch;
  const int launched = LaunchedProcesses();
  if (launched != plan.nodes)
    return BadUsage("{} processes were started for {} machines", launched, plan.nodes)
        .member("trainer.nnodes")
        .hint(
            "start one process on each machine: mpirun --map-by ppr:1:node, srun "
            "--ntasks-per-node=1 --mpi=pmix");
  if (launched == 1) return launch;
  launch.on_lost_ = options.heartbeat.on_lost;
  NXDKIT_ASSIGN(launch.transport_, Begin(options));
  launch.leader_ = std::make_unique<Leader>(*launch.transport_);
  launch.heartbeat_ = std::make_unique<Heartbeat>(*launch.transport_, options.heartbeat);
  return launch;
}

// Ending MPI waits for the others, which may be gone.
Launch::~Launch() {
  if (heartbeat_ != nullptr) heartbeat_->Fail(Error(Errc::kInternal, "process 0 has ended"));
  heartbeat_.reset();
  static_cast<void>(transport_.release());
}

Status Launch::End() {
  if (transport_ == nullptr) return OkStatus();
  NXDKIT_TRY(leader_->TellAll({{"call", "end"}}));
  heartbeat_->End();
  heartbeat_.reset();
  const Deadline deadline(kToEnd, on_lost_, "the end of MPI");
  transport_.reset();
  return OkStatus();
}

void Launch::Fail(const Error& error) {
  if (transport_ == nullptr) return;
  if (leader_->in_order() && End().ok()) return;
  if (heartbeat_ != nullptr) heartbeat_->Fail(error);
  // A scheduler may take the highest exit code of all and kill the rest when one process fails: let
  // the others end first.
  std::this_thread::sleep_for(kLast);
}

Status FollowLaunch(const FollowOptions& options) {
  std::optional<Deadline> deadline;  // there it may take longer than the transport
  NXDKIT_ASSIGN(std::unique_ptr<Transport> transport, Begin(options.launch));
  Heartbeat heartbeat(*transport, options.launch.heartbeat);
  WorkerHost workers(*transport, options.worker_command, options.neuron_variables);
  DeliveryHost deliveries(*transport);
  OrderHandlers handlers;
  workers.AddHandlers(handlers);
  deliveries.AddHandlers(handlers);
  Status followed = Follow(*transport, handlers);
  if (followed.ok()) {
    heartbeat.End();
    deadline.emplace(kToEnd, options.launch.heartbeat.on_lost, "the end of MPI");
    return followed;
  }
  heartbeat.Fail(followed.error());
  static_cast<void>(transport.release());
  return followed;
}

}  // namespace nxdkit::trainer
