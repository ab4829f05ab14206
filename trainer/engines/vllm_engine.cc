#include "trainer/engines/vllm_engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "formats/vllm/ask.h"
#include "lib/base/errors.h"
#include "lib/base/stopwatch.h"
#include "trainer/engines/crew.h"
#include "trainer/engines/server_process.h"
#include "trainer/engines/vllm_messages.h"

namespace nxdkit::trainer {
namespace {

constexpr auto kBetweenAsking = std::chrono::milliseconds(200);
constexpr double kHealthSeconds = 10;
constexpr int64_t kMostThreads = 256;
constexpr int kMostTries = 2;  // per group of requests, while the server is healthy

// Features of a server, found by asking: the same version may have been started in several ways.
struct Abilities {
  std::string version;
  bool reloads = false;
  VllmEndpoint endpoint = VllmEndpoint::kCompletions;
};

// A token with its log-probability takes some 100 bytes, plus its text.
uint64_t MostAnswerBytes(std::span<const RolloutRequest> requests, int64_t seq_len) {
  constexpr uint64_t kOfAToken = 512;
  return vllm::kMostAnswerBytes + requests.size() * static_cast<uint64_t>(seq_len) * kOfAToken;
}

class VllmEngine : public RolloutEngine {
 public:
  Result<EngineFacts> Load(const EngineOptions& options,
                           const std::function<Status()>& poll) override {
    options_ = options;
    server_ = {.url = server_.url, .seconds = other().answer_seconds, .poll = poll};
    facts_ = {};
    facts_.tp = other().tp;
    facts_.dtype = other().dtype;
    facts_.vocab = other().vocab;
    facts_.seq_len = other().seq_len;
    const Status taken = Take();
    server_.poll = nullptr;  // it is the caller's
    // A server whose answers are invalid has failed like one that does not answer.
    if (!taken.ok() && taken.error().code() == Errc::kCorrupt)
      return Error(Errc::kIo, taken.error().ToString());
    NXDKIT_TRY(taken);
    facts_.engine = "vllm " + abilities_.version;
    facts_.version.emplace();
    facts_.version->label = other().version;
    return facts_;
  }

  Result<Generated> Generate(std::span<const RolloutRequest> requests,
                             const GenerateHooks& hooks) override {
    NXDKIT_TRY(CheckRequests(requests, facts_));  // an id beyond the vocabulary kills a server
    const std::vector<RequestGroup> groups = GroupRequests(requests, other().in_flight);
    Generated out;
    out.responses.resize(requests.size());
    for (const RequestGroup& group : groups)
      out.stats.prompt_tokens += std::ssize(requests[group.first].prompt);
    const CrewTask task = [&](size_t number, const std::function<Status()>& poll) {
      return AskGroup(requests.subspan(groups[number].first, groups[number].count), poll);
    };
    const CrewDone done = [&](size_t number, std::vector<RolloutResponse> responses) {
      for (size_t i = 0; i < responses.size(); ++i) {
        RolloutResponse& response = out.responses[groups[number].first + i];
        response = std::move(responses[i]);
        out.stats.response_tokens += std::ssize(response.ids);
        if (hooks.on_response) hooks.on_response(groups[number].first + i, response);
      }
    };
    NXDKIT_TRY(RunCrew(groups.size(), AtATime(groups), hooks.poll, task, done));
    return out;
  }

 private:
  const OtherEngine& other() const { return options_.other; }
  bool is_ours() const { return other().url.empty(); }

  // The number of concurrent requests that keeps the sequences within in_flight.
  int AtATime(const std::vector<RequestGroup>& groups) const {
    size_t largest = 1;
    for (const RequestGroup& group : groups) largest = std::max(largest, group.count);
    const int64_t requests = other().in_flight / static_cast<int64_t>(largest);
    return static_cast<int>(std::clamp<int64_t>(requests, 1, kMostThreads));
  }

  // Loads the weights of options_ into the server, with proof.
  Status Take() {
    started_ = false;
    if (process_ && (!abilities_.reloads || process_->HasEnded())) {
      const Stopwatch watch;
      process_.reset();
      facts_.seconds["stop"] = watch.Seconds();
    }
    if (!process_) NXDKIT_TRY(BringUp());
    if (started_) return Prove();
    const Status replaced = Replace();
    // For any other failure the server cannot be trusted from now on, and a new one may work.
    if (!is_ours() || replaced.ok() || replaced.error().code() == Errc::kInterrupted)
      return replaced;
    return Error(Errc::kIo, replaced.error().ToString());
  }

  // Makes sure that a server answers, with the weights of options_ if it is ours.
  Status BringUp() {
    const Stopwatch watch;
    if (is_ours()) {
      NXDKIT_ASSIGN(const int port, FreePort());
      server_.url = fmt::format("http://127.0.0.1:{}", port);
      NXDKIT_ASSIGN(
          ServerProcess process,
          ServerProcess::Start(FilledCommand(other(), options_.bundle, port), other().variables));
      process_.emplace(std::move(process));
    } else {
      server_.url = other().url;
    }
    NXDKIT_TRY(WaitForHealth());
    if (!probed_ || is_ours()) NXDKIT_TRY(Probe());
    probed_ = true;
    started_ = is_ours();
    if (started_) facts_.seconds["start"] = watch.Seconds();
    return OkStatus();
  }

  Status WaitForHealth() {
    const Stopwatch watch;
    vllm::Server asked = server_;
    asked.seconds = kHealthSeconds;
    while (true) {
      const Status health = vllm::CheckHealth(asked);
      if (health.ok()) return OkStatus();
      if (health.error().code() != Errc::kIo) return health;
      if (server_.poll) NXDKIT_TRY(server_.poll());
      if (process_ && process_->HasEnded())
        return Error(Errc::kIo,
                     fmt::format("the server {} before it answered", process_->EndText()))
            .in(server_.url);
      if (watch.Seconds() > other().start_seconds)
        return Error(Errc::kIo,
                     fmt::format("the server does not answer /health with 200 after {} s: {}",
                                 other().start_seconds, health.error().message()))
            .in(server_.url);
      std::this_thread::sleep_for(kBetweenAsking);
    }
  }

  Status Probe() {
    NXDKIT_ASSIGN(abilities_.version, vllm::AskVersion(server_));
    NXDKIT_ASSIGN(const bool tokens, vllm::HasEndpoint(server_, PathOf(VllmEndpoint::kTokens)));
    abilities_.endpoint = tokens ? VllmEndpoint::kTokens : VllmEndpoint::kCompletions;
    NXDKIT_ASSIGN(abilities_.reloads, vllm::CanReload(server_));
    // Weights that cannot be proved, such as a bundle, are not replaced while the server runs.
    const bool predicted = !other().parameters.empty();
    abilities_.reloads = abilities_.reloads && predicted && !other().starts_anew;
    if (abilities_.reloads) NXDKIT_TRY(LookAtParameters());
    NXDKIT_ASSIGN(const vllm::ServedModel served, vllm::AskModel(server_));
    if (served.max_model_len > 0 && served.max_model_len < other().seq_len)
      return Unsupported("the server's sequences have {} tokens at most, {} are needed",
                         served.max_model_len, other().seq_len)
          .in(server_.url)
          .hint("start it with --max-model-len " + std::to_string(other().seq_len));
    return OkStatus();
  }

  Result<std::map<std::string, std::string>> AskDigests() const {
    auto answered = vllm::AskChecksums(server_);
    const bool lacks = !answered.ok() && answered.error().code() == Errc::kUnsupported;
    return lacks && other().starts_anew ? vllm::AskChecksumsOfWorkers(server_) : answered;
  }

  // Called before anything in it is changed: another number of ranks or another model is not the
  // same as stale weights.
  Status LookAtParameters() {
    const auto answered = vllm::AskChecksums(server_);
    abilities_.reloads = answered.ok();
    if (!answered.ok() && answered.error().code() != Errc::kUnsupported) return answered.error();
    if (!answered.ok()) return OkStatus();
    for (const auto& [key, digest] : other().parameters)
      if (!answered->contains(key))
        return Unsupported(
                   "the server has no parameter {}: it has another model than the run, or "
                   "other tensor parallel ranks than {}, or other experts in them",
                   key, other().tp)
            .in(server_.url)
            .hint(
                "worker.rollout.tensor_parallel_size and enable_expert_parallel say what is "
                "expected");
    return OkStatus();
  }

  // Loads new weights into a running server.
  Status Replace() {
    if (!abilities_.reloads)
      return Unsupported("the server cannot be given new weights while it runs")
          .in(server_.url)
          .hint(
              "start it with VLLM_SERVER_DEV_MODE=1, or set worker.rollout.command, which is "
              "restarted for every version of the weights");
    Stopwatch watch;
    NXDKIT_TRY(vllm::Pause(server_));
    facts_.seconds["pause"] = watch.Lap();
    NXDKIT_TRY(vllm::ReloadWeights(server_, options_.bundle));
    facts_.seconds["reload"] = watch.Lap();
    return Prove();
  }

  // Proves the parameters that the server can show, and sets its new name. A paused one is resumed
  // only after that.
  Status Prove() {
    Stopwatch watch;
    if (abilities_.reloads || other().starts_anew) {
      NXDKIT_TRY(CheckParameters());
      facts_.seconds["check"] = watch.Lap();
    }
    if (abilities_.reloads) {
      NXDKIT_TRY(vllm::ResetPrefixCache(server_));
      NXDKIT_TRY(vllm::SetWeightVersion(server_, other().version));
      NXDKIT_TRY(vllm::Resume(server_));
    } else {
      NXDKIT_TRY(CheckName());
    }
    NXDKIT_TRY(AskOneToken());
    facts_.seconds["resume"] = watch.Lap();
    return OkStatus();
  }

  Status CheckParameters() {
    if (other().parameters.empty()) return OkStatus();
    const auto answered = AskDigests();
    const bool silent = !answered.ok() && answered.error().code() == Errc::kUnsupported;
    if (silent && other().starts_anew) return OkStatus();
    if (!answered.ok()) return answered.error();
    return ProveParameters(other(), *answered, facts_);
  }

  // Checks the name of a server that was started on the weights, if its command sets it.
  Status CheckName() {
    const auto says = [](const std::string& word) { return word.find("{name}") != word.npos; };
    if (std::ranges::none_of(other().command, says)) return OkStatus();
    NXDKIT_ASSIGN(const vllm::ServedModel served, vllm::AskModel(server_));
    if (served.name == other().version) return OkStatus();
    return Error(Errc::kFindings, fmt::format("stale weights: the server calls its model \"{}\", "
                                              "expected \"{}\"",
                                              served.name, other().version))
        .in(server_.url);
  }

  // The first request takes seconds, and it reveals the version that tokens carry. It asks for
  // everything that later requests ask for: a server that refuses it is found now, not after a
  // step's wait.
  Status AskOneToken() {
    RolloutRequest request{.prompt = {0}, .sampling = {.max_tokens = 1}};
    request.sampling.log_probs = other().tells_log_probs;
    NXDKIT_TRY(Ask(std::span(&request, 1), server_, 1));
    return OkStatus();
  }

  Result<std::vector<RolloutResponse>> Ask(std::span<const RolloutRequest> requests,
                                           const vllm::Server& server, int attempt) const {
    const RolloutRequest& first = requests[0];
    const std::string id = fmt::format("step-{}-prompt-{}-{}-try-{}", first.step,
                                       first.prompt_index, first.sample_index, attempt);
    const Json body = GenerateBody(abilities_.endpoint, requests, other().seq_len, id);
    NXDKIT_ASSIGN(const Json answer, vllm::Ask(server, PathOf(abilities_.endpoint), body.dump(),
                                               MostAnswerBytes(requests, other().seq_len)));
    // A server whose answers are invalid has failed like one that does not answer.
    const auto failed = [&](const Error& error) {
      return Error(Errc::kIo, "the server's answer cannot be used: " + error.ToString())
          .in(server.url);
    };
    const std::string expected = abilities_.reloads ? other().version : "";
    auto responses = ReadGenerated(abilities_.endpoint, answer, requests, expected);
    if (!responses.ok() && responses.error().code() != Errc::kFindings)
      return failed(responses.error());
    if (!responses.ok()) return Error(responses.error()).in(server.url);
    for (size_t i = 0; i < responses->size(); ++i)
      if (const Status good = CheckResponse((*responses)[i], requests[i], facts_); !good.ok())
        return failed(good.error());
    return responses;
  }

  // Repeated only while the server reports that it is healthy; otherwise whoever started it
  // decides.
  Result<std::vector<RolloutResponse>> AskGroup(std::span<const RolloutRequest> requests,
                                                const std::function<Status()>& poll) const {
    vllm::Server server = server_;
    server.poll = poll;
    vllm::Server health = server;
    health.seconds = kHealthSeconds;
    for (int tried = 1;; ++tried) {
      auto responses = Ask(requests, server, tried);
      if (responses.ok() || responses.error().code() != Errc::kIo) return responses;
      NXDKIT_TRY(poll());
      if (tried == kMostTries || !vllm::CheckHealth(health).ok()) return responses;
    }
  }

  EngineOptions options_;
  vllm::Server server_;
  std::optional<ServerProcess> process_;
  bool probed_ = false;   // the server, for abilities_
  bool started_ = false;  // by the load in progress: on its weights
  Abilities abilities_;
  EngineFacts facts_;
};

}  // namespace

std::unique_ptr<RolloutEngine> MakeVllmEngine() { return std::make_unique<VllmEngine>(); }

}  // namespace nxdkit::trainer
