#include "trainer/rollout/worker_pool.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "lib/base/errors.h"
#include "trainer/rollout/messages.h"
#include "trainer/rollout/worker_process.h"

namespace nxdkit::trainer {
namespace {

constexpr int kPollMilliseconds = 100;
constexpr int kMaxRestarts = 3;  // of one worker in one call

enum class Work { kNone, kLoading, kGenerating };

struct Worker {
  std::optional<WorkerProcess> process;
  Work work = Work::kNone;
  std::set<size_t> pending;          // unanswered requests
  std::optional<EngineFacts> facts;  // from its last loading
  int restarts = 0;                  // in the current call
};

bool SameWeights(const EngineFacts& a, const EngineFacts& b) {
  return a.version == b.version && a.digest == b.digest;
}

std::string WeightsText(const EngineFacts& facts) {
  if (!facts.version) return fmt::format("weights without a version {}", facts.digest);
  return fmt::format("version {} \"{}\" {}", facts.version->serial, facts.version->label,
                     facts.digest);
}

}  // namespace

std::vector<size_t> SplitRequests(std::span<const RolloutRequest> requests, int workers) {
  std::vector<size_t> begins = {0};
  for (int worker = 1; worker <= workers; ++worker) {
    size_t at = requests.size() * static_cast<size_t>(worker) / static_cast<size_t>(workers);
    at = std::max(at, begins.back());
    while (at > 0 && at < requests.size() && requests[at].prompt == requests[at - 1].prompt) ++at;
    begins.push_back(at);
  }
  return begins;
}

std::string LogFileOf(const WorkerPoolOptions& options, size_t worker) {
  return options.log_files.empty() ? "" : options.log_files[worker];
}

Result<StartedWorker> StartWorkerHere(const WorkerPoolOptions& options, size_t worker,
                                      size_t place) {
  std::vector<std::string> own = options.environment;
  if (place < options.environment_of.size())
    own.insert(own.end(), options.environment_of[place].begin(),
               options.environment_of[place].end());
  return StartLocalWorker({options.command, WorkerEnvironment(own), LogFileOf(options, worker),
                           options.grace.count() > 0 ? 0 : SIGKILL});
}

struct WorkerPool::State {
  ~State() { EndAll(); }

  WorkerPoolOptions options;
  std::vector<Worker> workers;
  std::vector<EngineOptions> loads;  // the options that workers load, also after a restart
  std::optional<EngineFacts> facts;  // from the first worker that loaded

  // The current call:
  std::span<const RolloutRequest> requests;
  const GenerateHooks* hooks = nullptr;
  Generated out;

  int64_t all_restarts = 0;
  std::vector<WorkerProcess> ending;  // released, but still ending

  Status StartProcess(size_t index) {
    EndReleased();  // on another machine its last output arrives the same way
    NXDKIT_ASSIGN(StartedWorker started,
                  options.start ? options.start(index) : StartWorkerHere(options, index, index));
    workers[index].process.emplace(std::move(started));
    return OkStatus();
  }

  const EngineOptions& LoadOf(size_t index) const {
    return loads.size() == 1 ? loads[0] : loads[index];
  }

  void QueueLoad(size_t index) {
    Worker& worker = workers[index];
    worker.work = Work::kLoading;
    worker.process->Expect();
    worker.process->Queue(FrameKind::kLoad, Encode(LoadOf(index)));
  }

  void QueueGenerate(Worker& worker) {
    worker.work = Work::kGenerating;
    worker.process->Expect();
    std::vector<NumberedRequest> part;
    for (const size_t number : worker.pending) part.push_back({number, &requests[number]});
    worker.process->Queue(FrameKind::kGenerate, EncodeRequests(part));
  }

  // Runs until no worker has anything to do.
  Status Drive(const std::function<Status()>& poll) {
    while (AnyBusy()) {
      if (poll) NXDKIT_TRY(poll());
      std::vector<pollfd> waiting;
      for (const Worker& worker : workers)
        if (worker.work != Work::kNone)
          waiting.push_back(
              {worker.process->fd(),
               static_cast<short>(POLLIN | (worker.process->wants_to_write() ? POLLOUT : 0)), 0});
      ::poll(waiting.data(), waiting.size(), kPollMilliseconds);
      for (size_t i = 0; i < workers.size(); ++i)
        if (workers[i].work != Work::kNone) NXDKIT_TRY(Attend(i));
    }
    return OkStatus();
  }

  // Reads and writes as far as possible; restarts a worker that is gone, silent or sends nonsense.
  Status Attend(size_t index) {
    Worker& worker = workers[index];
    const bool there = worker.process->Pump();
    while (worker.work != Work::kNone) {
      const Result<std::optional<Frame>> frame = worker.process->Take();
      bool understood = frame.ok();
      if (understood && !frame->has_value()) break;
      const int before = worker.restarts;
      if (understood) NXDKIT_TRY(Handle(index, **frame, understood));
      if (!understood) return Restart(index, "cannot be understood");
      if (worker.restarts != before) return OkStatus();  // a new process by now
    }
    if (worker.work == Work::kNone) return OkStatus();
    if (!there) return Restart(index, "is gone");
    const std::chrono::duration<double> silent =
        std::chrono::steady_clock::now() - worker.process->last_heard();
    if (silent.count() > options.silence_seconds)
      return Restart(index, fmt::format("has said nothing for {:.1f} s", silent.count()));
    return OkStatus();
  }

  Status Restart(size_t index, const std::string& why) {
    Worker& worker = workers[index];
    const pid_t pid = worker.process->pid();
    const std::string end = worker.process->End(options.grace);
    worker.process.reset();
    const std::string what =
        fmt::format("rollout worker {} (process {}) {}: it {}", index, pid, why, end);
    const std::string log = LogFileOf(options, index);
    if (++worker.restarts > kMaxRestarts)
      return Error(Errc::kIo, fmt::format("{}; that is failure {} of this call, {} are allowed",
                                          what, worker.restarts, kMaxRestarts))
          .hint(log.empty() ? "" : "its output is in " + log);
    if (options.on_warning)
      options.on_warning(fmt::format(
          "{}; it is restarted{}", what,
          worker.pending.empty() ? "" : fmt::format(" for {} requests", worker.pending.size())));
    ++all_restarts;
    NXDKIT_TRY(StartProcess(index));
    QueueLoad(index);
    return OkStatus();
  }

  // An error ends the call. A frame that is not `understood` ends the worker.
  Status Handle(size_t index, const Frame& frame, bool& understood) {
    Worker& worker = workers[index];
    const auto decoded = [&](Status status) -> Status {
      if (status.ok() || status.error().code() != Errc::kCorrupt) return status;
      understood = false;
      return OkStatus();
    };
    switch (frame.kind) {
      case FrameKind::kHello:
        return decoded(DecodeHello(frame.payload));
      case FrameKind::kProgress:
        return OkStatus();
      case FrameKind::kFailed:
        if (worker.work == Work::kNone) break;
        return ErrorFrom(frame.payload);
      case FrameKind::kBroken:
        if (worker.work == Work::kNone) break;
        return Rebuild(index, ErrorFrom(frame.payload));
      case FrameKind::kLoaded:
        if (worker.work != Work::kLoading) break;
        return decoded(TakeLoaded(worker, frame.payload));
      case FrameKind::kResponse:
        if (worker.work != Work::kGenerating) break;
        return decoded(TakeResponse(worker, frame.payload));
      case FrameKind::kDone:
        if (worker.work != Work::kGenerating) break;
        return decoded(TakeDone(worker, frame.payload));
      default:
        break;
    }
    understood = false;
    return OkStatus();
  }

  // The engine behind a worker has failed: its remains end with the worker.
  Status Rebuild(size_t index, const Error& error) {
    const Status status = Restart(index, "has an engine that failed (" + error.ToString() + ")");
    if (status.ok() || error.hint().empty()) return status;
    return Error(status.error()).hint(error.hint());
  }

  Status TakeLoaded(Worker& worker, const std::string& payload) {
    NXDKIT_ASSIGN(worker.facts, Decode<EngineFacts>(payload));
    const EngineFacts& loaded = *worker.facts;
    const EngineOptions& load = loads[0];  // they expect the same
    NXDKIT_TRY(CheckLoaded(load.expect, loaded, load.bundle));
    if (!facts)
      facts = loaded;
    else if (!SameWeights(*facts, loaded))
      return Error(Errc::kFindings,
                   fmt::format("rollout workers have loaded different weights: {} and {}",
                               WeightsText(*facts), WeightsText(loaded)))
          .in(load.bundle);
    worker.work = Work::kNone;
    if (!worker.pending.empty()) QueueGenerate(worker);
    return OkStatus();
  }

  Status TakeResponse(Worker& worker, const std::string& payload) {
    NXDKIT_ASSIGN(NumberedResponse one, DecodeResponse(payload));
    const auto found = worker.pending.find(static_cast<size_t>(one.number));
    if (found == worker.pending.end())
      return Corrupt("a response to request {}, which was not sent", one.number);
    NXDKIT_TRY(CheckResponse(one.response, requests[*found], *facts));
    RolloutResponse& response = out.responses[*found] = std::move(one.response);
    out.stats.response_tokens += std::ssize(response.ids);
    const size_t request = *found;
    worker.pending.erase(found);
    if (hooks->on_response) hooks->on_response(request, response);
    return OkStatus();
  }

  Status TakeDone(Worker& worker, const std::string& payload) {
    NXDKIT_ASSIGN(const GenerateStats stats, Decode<GenerateStats>(payload));
    if (!worker.pending.empty())
      return Corrupt("done, with {} unanswered requests", worker.pending.size());
    out.stats.passes += stats.passes;
    out.stats.prompt_tokens += stats.prompt_tokens;
    out.stats.copied_tokens += stats.copied_tokens;
    worker.work = Work::kNone;
    return OkStatus();
  }

  void StopBusy() {
    for (Worker& worker : workers) {
      worker.pending.clear();
      if (worker.work == Work::kNone) continue;
      if (worker.process) ReleaseProcess(*std::move(worker.process));
      worker.process.reset();
      worker.work = Work::kNone;
    }
  }

  // Releases a process that takes its time to end; it is waited for when nothing else is left to
  // do, because an interrupted run wants to save first.
  void ReleaseProcess(WorkerProcess process) {
    process.HangUp();
    if (options.grace.count() > 0)
      ending.push_back(std::move(process));
    else
      process.End();
  }

  void EndAll() {
    for (Worker& worker : workers)
      if (worker.process) worker.process->HangUp();  // so that all end at the same time
    for (Worker& worker : workers)
      if (worker.process) worker.process->End(options.grace);
    EndReleased();
  }

  void EndReleased() {
    for (WorkerProcess& process : ending) process.End(options.grace);
    ending.clear();
  }

  // Those of the first worker, with the times and proofs of all.
  EngineFacts AllFacts() const {
    EngineFacts all = *facts;
    all.proved = all.not_covered = 0;
    for (const Worker& worker : workers) {
      all.proved += worker.facts->proved;
      all.not_covered += worker.facts->not_covered;
      for (const auto& [part, seconds] : worker.facts->seconds)
        all.seconds[part] = std::max(all.seconds[part], seconds);
    }
    return all;
  }

  bool AnyBusy() const {
    return std::ranges::any_of(workers, [](const Worker& w) { return w.work != Work::kNone; });
  }
};

WorkerPool::WorkerPool(std::unique_ptr<State> state) : state_(std::move(state)) {}
WorkerPool::WorkerPool(WorkerPool&&) noexcept = default;
WorkerPool& WorkerPool::operator=(WorkerPool&&) noexcept = default;
WorkerPool::~WorkerPool() = default;

Result<WorkerPool> WorkerPool::Start(const WorkerPoolOptions& options) {
  if ((options.command.empty() && !options.start) || options.workers < 1 ||
      !(options.silence_seconds > 0))
    return BadUsage("rollout workers need a command, a number and a time");
  for (const auto& [what, count] : {std::pair("environments", std::ssize(options.environment_of)),
                                    {"log files", std::ssize(options.log_files)}})
    if (count != 0 && count != options.workers)
      return BadUsage("{} for {} rollout workers, there are {}", what, count, options.workers);
  auto state = std::make_unique<State>();
  state->options = options;
  state->workers.resize(static_cast<size_t>(options.workers));
  for (size_t i = 0; i < state->workers.size(); ++i) NXDKIT_TRY(state->StartProcess(i));
  return WorkerPool(std::move(state));
}

int64_t WorkerPool::restarts() const { return state_->all_restarts; }

std::vector<int> WorkerPool::pids() const {
  std::vector<int> out;
  for (const Worker& worker : state_->workers)
    out.push_back(worker.process ? worker.process->pid() : -1);
  return out;
}

Result<EngineFacts> WorkerPool::Load(std::span<const EngineOptions> options,
                                     const std::function<Status()>& poll) {
  State& s = *state_;
  if (options.size() != 1 && options.size() != s.workers.size())
    return BadUsage("{} engines for {} rollout workers", options.size(), s.workers.size());
  s.loads.assign(options.begin(), options.end());
  s.facts.reset();
  for (Worker& worker : s.workers) worker.restarts = 0;
  for (size_t i = 0; i < s.workers.size(); ++i) {
    if (!s.workers[i].process) NXDKIT_TRY(s.StartProcess(i));
    s.QueueLoad(i);
  }
  const Status status = s.Drive(poll);
  if (status.ok()) return s.AllFacts();
  s.StopBusy();
  s.facts.reset();
  return status.error();
}

Result<Generated> WorkerPool::Generate(std::span<const RolloutRequest> requests,
                                       const GenerateHooks& hooks) {
  State& s = *state_;
  if (!s.facts) return Error(Errc::kInternal, "the rollout workers have loaded nothing");
  NXDKIT_TRY(CheckRequests(requests, *s.facts));
  s.requests = requests;
  s.hooks = &hooks;
  s.out = {};
  s.out.responses.resize(requests.size());
  for (Worker& worker : s.workers) worker.restarts = 0;
  const std::vector<size_t> begins = SplitRequests(requests, s.options.workers);
  Status started;
  for (size_t i = 0; i < s.workers.size(); ++i) {
    for (size_t at = begins[i]; at < begins[i + 1]; ++at) s.workers[i].pending.insert(at);
    if (s.workers[i].pending.empty()) continue;
    if (s.workers[i].process) {
      s.QueueGenerate(s.workers[i]);
      continue;
    }
    started = s.StartProcess(i);
    if (!started.ok()) break;
    s.QueueLoad(i);
  }
  const Status status = started.ok() ? s.Drive(hooks.poll) : started;
  if (status.ok()) return std::move(s.out);
  s.StopBusy();
  return status.error();
}

}  // namespace nxdkit::trainer
