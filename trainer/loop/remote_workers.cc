#include "trainer/loop/remote_workers.h"

#include <signal.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lib/system/folders.h"
#include "trainer/comm/relay.h"
#include "trainer/loop/others_engine.h"

namespace nxdkit::trainer {
namespace {

using Time = std::chrono::milliseconds;

int ChannelOf(size_t worker) { return kWorkerChannel + static_cast<int>(worker); }

// In process 0: a worker on another machine.
class RemoteWorker : public RunningWorker {
 public:
  RemoteWorker(Leader& leader, int process, size_t worker, pid_t pid, Descriptor relayed)
      : leader_(leader),
        process_(process),
        worker_(worker),
        pid_(pid),
        relay_(leader.transport(), process, ChannelOf(worker), std::move(relayed)) {}
  ~RemoteWorker() override {
    if (!ended_) End(Time(0));
  }
  pid_t pid() const override { return pid_; }

  std::string End(Time grace) override {
    ended_ = true;
    // Its process waits for something else, and ends with the run.
    if (!leader_.in_order()) return "is left to the end of the run";
    const Json order = {{"call", "end_worker"}, {"worker", worker_}, {"grace", grace.count()}};
    const Result<Json> answer = leader_.Ask(process_, order);
    if (!answer.ok()) return "cannot be ended: " + answer.error().ToString();
    relay_.Wait();
    return answer->value("end", "ended");
  }

 private:
  Leader& leader_;
  const int process_;
  const size_t worker_;
  const pid_t pid_;
  bool ended_ = false;
  Relay relay_;
};

// Its index among the workers of its machine.
int64_t PlaceOnMachine(const RunPlan& plan, size_t worker) {
  const auto begin = plan.machine_of_worker.begin();
  return std::count(begin, begin + static_cast<ptrdiff_t>(worker), plan.machine_of_worker[worker]);
}

Result<StartedWorker> StartHere(const RemoteWorkers& workers, size_t worker) {
  const auto place = static_cast<size_t>(PlaceOnMachine(workers.plan, worker));
  return StartWorkerHere(workers.pool, worker, place);
}

Result<StartedWorker> StartThere(Leader& leader, const RemoteWorkers& workers, int machine,
                                 size_t worker) {
  NXDKIT_ASSIGN(auto sockets, MakeWorkerSockets());
  Json order = {{"call", "start_worker"},
                {"worker", worker},
                {"place", PlaceOnMachine(workers.plan, worker)},
                {"log", LogFileOf(workers.pool, worker)},
                {"stays", workers.pool.grace.count() > 0},
                {"others", workers.others},
                {"instance_cores", workers.instance_cores}};
  if (workers.have_cores) {
    const CoreSplit split = SplitOfMachine(workers.plan, machine, true);
    order["split"] = {split.train_cores, split.train_tp, split.workers, split.cores_per_worker};
  }
  NXDKIT_ASSIGN(const Json answer, leader.Ask(machine, order));
  StartedWorker started;
  started.running = std::make_unique<RemoteWorker>(
      leader, machine, worker, answer.value("process", pid_t{0}), std::move(sockets.second));
  started.socket = std::move(sockets.first);
  return started;
}

}  // namespace

CoreSplit SplitOfMachine(const RunPlan& plan, int64_t machine, bool workers_have_cores) {
  CoreSplit split;
  split.train_cores = workers_have_cores && !plan.separate
                          ? 0  // training and rollout share them
                          : plan.ranks_of_machine[static_cast<size_t>(machine)];
  // A group that spans several machines has only a part here.
  split.train_tp = split.train_cores % plan.train_tp == 0 ? plan.train_tp : split.train_cores;
  split.workers =
      workers_have_cores ? std::ranges::count(plan.machine_of_worker, machine) : int64_t{0};
  split.cores_per_worker = plan.rollout_tp;
  return split;
}

std::function<Result<StartedWorker>(size_t index)> RemoteWorkers::StarterOf(Leader& leader) const {
  return [&leader, workers = *this](size_t index) {
    const int machine = static_cast<int>(workers.plan.machine_of_worker[index]);
    return machine == 0 ? StartHere(workers, index) : StartThere(leader, workers, machine, index);
  };
}

struct WorkerHost::State {
  struct Hosted {
    std::unique_ptr<RunningWorker> running;
    std::unique_ptr<Relay> relay;
  };

  Result<Json> Start(const Json& order) {
    const auto worker = order["worker"].get<size_t>();
    LocalWorkerOptions options;
    options.command = command;
    NXDKIT_ASSIGN(options.environment, EnvironmentOf(order));
    options.log_file = order["log"].get<std::string>();
    if (!options.log_file.empty()) NXDKIT_TRY(MakeFolders(ParentPath(options.log_file)));
    options.signal = order["stays"].get<bool>() ? 0 : SIGKILL;
    NXDKIT_ASSIGN(StartedWorker started, StartLocalWorker(options));
    const pid_t pid = started.running->pid();
    hosted[worker] = {
        std::move(started.running),
        std::make_unique<Relay>(transport, 0, ChannelOf(worker), std::move(started.socket))};
    return Json{{"process", pid}};
  }

  Result<std::vector<std::string>> EnvironmentOf(const Json& order) const {
    std::vector<std::string> own;
    if (order["others"].get<bool>()) own = OthersVariables();
    if (!order.contains("split")) return WorkerEnvironment(own);
    const Json& numbers = order["split"];
    const CoreSplit split{numbers[0].get<int64_t>(), numbers[1].get<int64_t>(),
                          numbers[2].get<int64_t>(), numbers[3].get<int64_t>()};
    NXDKIT_ASSIGN(const RolloutEnvironment divided,
                  DivideNeuronVariables(taken, split, order["instance_cores"].get<int64_t>()));
    own.insert(own.end(), divided.all.begin(), divided.all.end());
    const auto place = order["place"].get<size_t>();
    if (place >= divided.of.size()) return Error(Errc::kInternal, "a worker without cores");
    own.insert(own.end(), divided.of[place].begin(), divided.of[place].end());
    return WorkerEnvironment(own);
  }

  Result<Json> End(const Json& order) {
    const auto found = hosted.find(order["worker"].get<size_t>());
    if (found == hosted.end()) return Error(Errc::kInternal, "no such rollout worker");
    const std::string end = found->second.running->End(Time(order["grace"].get<int64_t>()));
    found->second.relay->Wait();  // the leader's end closes as well
    hosted.erase(found);
    return Json{{"end", end}};
  }

  Transport& transport;
  const std::vector<std::string> command, taken;
  std::map<size_t, Hosted> hosted;
};

WorkerHost::WorkerHost(Transport& transport, std::vector<std::string> command,
                       std::vector<std::string> taken)
    : state_(new State{transport, std::move(command), std::move(taken), {}}) {}
WorkerHost::~WorkerHost() = default;

void WorkerHost::AddHandlers(OrderHandlers& handlers) {
  handlers["start_worker"] = [this](const Json& order, const Working&) {
    return state_->Start(order);
  };
  handlers["end_worker"] = [this](const Json& order, const Working&) { return state_->End(order); };
}

}  // namespace nxdkit::trainer
