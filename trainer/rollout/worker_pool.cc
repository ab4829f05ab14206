#include "trainer/rollout/worker_pool.h"

#include <fmt/core.h>
#include <poll.h>

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
constexpr int kMaxRestarts = 3;  // in one call, of all workers together

enum class Work { kNone, kLoading, kGenerating };

struct Worker {
  std::optional<WorkerProcess> process;
  Work work = Work::kNone;
  std::set<size_t> pending;  // requests that it has to answer
};

// A response is used as if the trainer had made it: it must be one.
Status CheckResponse(const RolloutResponse& response, const RolloutRequest& request,
                     const EngineFacts& facts) {
  const auto bad = [](std::string what) { return Error(Errc::kCorrupt, std::move(what)); };
  const int64_t tokens = std::ssize(response.ids);
  const int64_t most =
      std::min(request.sampling.max_tokens, facts.seq_len - std::ssize(request.prompt));
  if (tokens < 1 || tokens > most)
    return bad(fmt::format("a response of {} tokens, expected 1 to {}", tokens, most));
  for (const int32_t id : response.ids)
    if (id < 0 || id >= facts.vocab)
      return bad(fmt::format("token id {} is not below the model's {}", id, facts.vocab));
  const size_t expected = request.sampling.log_probs ? response.ids.size() : 0;
  if (response.log_probs.size() != expected)
    return bad(
        fmt::format("{} log-probabilities, expected {}", response.log_probs.size(), expected));
  return OkStatus();
}

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

struct WorkerPool::State {
  WorkerPoolOptions options;
  std::vector<Worker> workers;
  std::optional<EngineOptions> load;  // what a worker that is started again loads
  std::optional<EngineFacts> facts;   // of the first worker that loaded

  // Of the call under way.
  std::span<const RolloutRequest> requests;
  const GenerateHooks* hooks = nullptr;
  Generated out;
  int restarts = 0;

  int64_t all_restarts = 0;

  Status StartProcess(size_t index) {
    std::vector<std::string> own = options.environment;
    if (!options.environment_of.empty())
      own.insert(own.end(), options.environment_of[index].begin(),
                 options.environment_of[index].end());
    NXDKIT_ASSIGN(WorkerProcess process,
                  WorkerProcess::Start(options.command, WorkerEnvironment(own), LogFile(index)));
    workers[index].process = std::move(process);
    return OkStatus();
  }

  std::string LogFile(size_t index) const {
    return options.log_files.empty() ? "" : options.log_files[index];
  }

  void QueueLoad(Worker& worker) {
    worker.work = Work::kLoading;
    worker.process->Expect();
    worker.process->Queue(FrameKind::kLoad, Encode(*load));
  }

  void QueueGenerate(Worker& worker) {
    worker.work = Work::kGenerating;
    worker.process->Expect();
    std::vector<NumberedRequest> part;
    for (const size_t number : worker.pending) part.push_back({number, &requests[number]});
    worker.process->Queue(FrameKind::kGenerate, EncodeRequests(part));
  }

  // Until no worker has anything to do.
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

  // Reads and writes what can be; starts a worker again that is gone, silent or not understood.
  Status Attend(size_t index) {
    Worker& worker = workers[index];
    const bool there = worker.process->Pump();
    while (worker.work != Work::kNone) {
      const Result<std::optional<Frame>> frame = worker.process->Take();
      bool understood = frame.ok();
      if (understood && !frame->has_value()) break;
      if (understood) NXDKIT_TRY(Handle(index, **frame, understood));
      if (!understood) return Restart(index, "cannot be understood");
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
    const std::string end = worker.process->End();
    worker.process.reset();
    const std::string what =
        fmt::format("rollout worker {} (process {}) {}: it {}", index, pid, why, end);
    if (++restarts > kMaxRestarts)
      return Error(Errc::kIo, fmt::format("{}; that is failure {} of this call, {} are allowed",
                                          what, restarts, kMaxRestarts))
          .hint(LogFile(index).empty() ? "" : "what it said is in " + LogFile(index));
    if (options.on_warning)
      options.on_warning(
          fmt::format("{}; it is restarted for {} requests", what, worker.pending.size()));
    ++all_restarts;
    NXDKIT_TRY(StartProcess(index));
    QueueLoad(worker);
    return OkStatus();
  }

  // The error ends the call. A frame that is not `understood` ends the worker.
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

  Status TakeLoaded(Worker& worker, const std::string& payload) {
    NXDKIT_ASSIGN(EngineFacts loaded, Decode<EngineFacts>(payload));
    NXDKIT_TRY(CheckLoaded(load->expect, loaded, load->bundle));
    if (!facts)
      facts = std::move(loaded);
    else if (!SameWeights(*facts, loaded))
      return Error(Errc::kFindings,
                   fmt::format("rollout workers have loaded different weights: {} and {}",
                               WeightsText(*facts), WeightsText(loaded)))
          .in(load->bundle);
    worker.work = Work::kNone;
    if (!worker.pending.empty()) QueueGenerate(worker);
    return OkStatus();
  }

  Status TakeResponse(Worker& worker, const std::string& payload) {
    NXDKIT_ASSIGN(NumberedResponse one, DecodeResponse(payload));
    const auto found = worker.pending.find(static_cast<size_t>(one.number));
    if (found == worker.pending.end())
      return Corrupt("a response to request {}, which was not asked", one.number);
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
      return Corrupt("done, with {} requests that are not answered", worker.pending.size());
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
      worker.process.reset();
      worker.work = Work::kNone;
    }
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
  if (options.command.empty() || options.workers < 1 || !(options.silence_seconds > 0))
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

Result<EngineFacts> WorkerPool::Load(const EngineOptions& options,
                                     const std::function<Status()>& poll) {
  State& s = *state_;
  s.load = options;
  s.facts.reset();
  s.restarts = 0;
  for (size_t i = 0; i < s.workers.size(); ++i) {
    if (!s.workers[i].process) NXDKIT_TRY(s.StartProcess(i));
    s.QueueLoad(s.workers[i]);
  }
  const Status status = s.Drive(poll);
  if (status.ok()) return *s.facts;
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
  s.restarts = 0;
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
    s.QueueLoad(s.workers[i]);
  }
  const Status status = started.ok() ? s.Drive(hooks.poll) : started;
  if (status.ok()) return std::move(s.out);
  s.StopBusy();
  return status.error();
}

}  // namespace nxdkit::trainer
