#include "trainer/engines/exec_engine.h"

#include <fmt/core.h>
#include <poll.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "formats/vllm/ask.h"
#include "lib/base/errors.h"
#include "lib/base/stopwatch.h"
#include "lib/base/text.h"
#include "lib/system/child.h"
#include "trainer/engines/requests.h"
#include "trainer/engines/server_process.h"

namespace nxdkit::trainer {
namespace {

constexpr size_t kMaxLine = size_t{256} << 20;  // of one answer
constexpr int kPollMilliseconds = 100;
constexpr std::chrono::milliseconds kProgramGrace{15000};
constexpr std::chrono::milliseconds kHungGrace{200};
constexpr size_t kMostShown = 300;
constexpr double kLeastUnreported =
    0.1;  // least seconds outside the reported parts of a reload to report

std::string LineOf(const Json& message) {
  return message.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

// The program, and the messages exchanged with it.
class Talk {
 public:
  explicit Talk(Child child) : child_(std::move(child)) {}
  ~Talk() { child_.End(hung_ ? kHungGrace : kProgramGrace); }
  Talk(const Talk&) = delete;

  void Say(const Json& message) {
    said_ += LineOf(message);
    watch_ = Stopwatch();
  }

  // The next line. kIo when the program ends, is silent for `seconds`, or writes something that is
  // not JSON.
  Result<Json> Hear(double seconds, const std::function<Status()>& poll) {
    while (true) {
      if (const size_t end = heard_.find('\n', looked_); end != std::string::npos) {
        const std::string line = heard_.substr(0, end);
        heard_.erase(0, end + 1);
        looked_ = 0;
        watch_ = Stopwatch();
        return Parse(line);
      }
      looked_ = heard_.size();
      if (heard_.size() > kMaxLine)
        return Failed(fmt::format("says more than {} bytes in a line", kMaxLine));
      if (poll) NXDKIT_TRY(poll());
      hung_ = watch_.Seconds() > seconds;
      if (hung_) return Failed(fmt::format("has said nothing for {} s", seconds));
      if (!Exchange()) return Failed(child_.process.EndText());
    }
  }

 private:
  static Error Failed(const std::string& what) {
    return Error(Errc::kIo, "the program of worker.rollout.command " + what);
  }

  static Result<Json> Parse(const std::string& line) {
    Result<Json> json = ParseJson(line);
    if (json.ok() && json->is_object()) return json;
    return Failed("writes something that is not a JSON object: " +
                  EscapeControl(line.substr(0, kMostShown)));
  }

  // False when there is nothing more to read.
  bool Exchange() {
    pollfd waiting[] = {{child_.out.fd(), POLLIN, 0},
                        {said_.empty() ? -1 : child_.in.fd(), POLLOUT, 0}};
    ::poll(waiting, 2, kPollMilliseconds);
    if (waiting[1].revents != 0) {
      const ssize_t written = WriteQuietly(child_.in.fd(), said_);
      if (written > 0) said_.erase(0, static_cast<size_t>(written));
      // It no longer reads its input; its remaining output is read.
      if (written < 0 && errno == EPIPE) said_.clear();
    }
    if (waiting[0].revents == 0) return true;
    char buffer[1 << 16];
    const std::optional<std::string_view> some = ReadSome(child_.out, buffer);
    if (!some) return true;
    heard_ += *some;
    if (!some->empty()) return true;
    child_.End(kProgramGrace);
    return false;
  }

  Child child_;
  std::string said_, heard_;
  bool hung_ = false;
  size_t looked_ = 0;  // bytes of heard_ searched without a line's end
  Stopwatch watch_;    // since the last bytes written or read
};

class ExecEngine : public RolloutEngine {
 public:
  Result<EngineFacts> Load(const EngineOptions& options,
                           const std::function<Status()>& poll) override {
    options_ = options;
    facts_ = {};
    facts_.tp = other().tp;
    facts_.dtype = other().dtype;
    facts_.vocab = other().vocab;
    facts_.seq_len = other().seq_len;
    facts_.version.emplace();
    facts_.version->label = other().version;
    if (!talk_) NXDKIT_TRY(Start());
    const Status loaded = Reload(poll);
    if (!loaded.ok()) talk_.reset();
    NXDKIT_TRY(loaded);
    return facts_;
  }

  Result<Generated> Generate(std::span<const RolloutRequest> requests,
                             const GenerateHooks& hooks) override {
    if (!talk_) return Error(Errc::kInternal, "nothing is loaded that could generate");
    NXDKIT_TRY(CheckRequests(requests, facts_));
    Result<Generated> generated = AskAll(requests, hooks);
    // The rest of its output would be taken for answers to the next requests.
    if (!generated.ok()) talk_.reset();
    return generated;
  }

 private:
  const OtherEngine& other() const { return options_.other; }

  Status Start() {
    const std::vector<std::string> words = FilledCommand(other(), options_.bundle, 0);
    const std::optional<std::string> program = FindProgram(words[0]);
    if (!program)
      return NotFound("no such program, or it may not be executed")
          .in(words[0])
          .member("worker.rollout.command");
    NXDKIT_ASSIGN(Child child, StartChild({.program = *program,
                                           .words = words,
                                           .environment = EnvironmentWith(other().variables),
                                           .read_errors = false}));
    talk_ = std::make_unique<Talk>(std::move(child));
    return OkStatus();
  }

  // One request, one answer.
  Result<Json> Ask(const Json& question, double seconds, const std::function<Status()>& poll) {
    talk_->Say(question);
    return Hear(seconds, poll);
  }
  Result<Json> Hear(double seconds, const std::function<Status()>& poll) {
    NXDKIT_ASSIGN(Json answer, talk_->Hear(seconds, poll));
    if (const Json* error = JsonFind(answer, "error"))
      return Error(Errc::kIo, "the program of worker.rollout.command fails: " +
                                  EscapeControl(error->is_string() ? error->get<std::string>()
                                                                   : JsonExcerpt(*error)));
    return answer;
  }

  Status Reload(const std::function<Status()>& poll) {
    Stopwatch watch;
    const Json reload = {{"op", "reload"},
                         {"model", options_.bundle},
                         {"version", other().version},
                         {"dtype", std::string(TorchName(other().dtype))},
                         {"tensor_parallel_size", other().tp},
                         {"max_model_len", other().seq_len},
                         {"temperature", other().temperature}};
    NXDKIT_ASSIGN(const Json loaded, Ask(reload, other().start_seconds, poll));
    const Result<std::string> version = JsonString(loaded, "version");
    if (!version.ok() || *version != other().version)
      return Error(Errc::kFindings,
                   fmt::format("stale weights: the engine answers {}, expected the version \"{}\"",
                               JsonExcerpt(loaded), other().version));
    if (const Result<std::string> engine = JsonString(loaded, "engine"); engine.ok())
      facts_.engine = "exec " + EscapeControl(engine->substr(0, kMostShown));
    else
      facts_.engine = "exec";
    NXDKIT_TRY(TakeSeconds(loaded, watch.Lap()));
    if (other().parameters.empty()) return OkStatus();
    NXDKIT_ASSIGN(const Json said, Ask({{"op", "digests"}}, other().answer_seconds, poll));
    const Json* digests = JsonFind(said, "digests");
    if (!digests || digests->is_null()) return OkStatus();  // it cannot report them
    NXDKIT_ASSIGN(const auto answered, vllm::ReadDigests(*digests));
    NXDKIT_TRY(ProveParameters(other(), answered, facts_));
    facts_.seconds["check"] = watch.Lap();
    return OkStatus();
  }

  // The parts of a reload that the program reports; the rest of `all` is "reload".
  Status TakeSeconds(const Json& loaded, double all) {
    const Json* told = JsonFind(loaded, "seconds");
    const Json none = Json::object();
    if (!told || told->is_null()) told = &none;
    if (!told->is_object()) return Unusable(Corrupt("seconds are {}", JsonTypeText(*told)));
    double rest = all;
    for (const char* part : {"stop", "start", "reload", "resume"}) {
      const Json* number = JsonFind(*told, part);
      if (!number) continue;
      const double seconds = number->is_number() ? number->get<double>() : -1;
      if (!(seconds >= 0 && seconds <= all))
        return Unusable(Corrupt("{} takes {} of {} s", part, JsonExcerpt(*number), all));
      facts_.seconds[part] = seconds;
      rest -= seconds;
    }
    if (told->empty() || rest > kLeastUnreported) facts_.seconds["reload"] += std::max(rest, 0.0);
    return OkStatus();
  }

  static Json RequestJson(const RolloutRequest& first, const RequestGroup& group, size_t id) {
    const SamplingParams& sampling = first.sampling;
    return {{"id", id},
            {"token_ids", first.prompt},
            {"n", group.count},
            {"seed", SeedOf(first)},
            {"temperature", sampling.temperature},
            {"top_p", sampling.top_p},
            {"top_k", sampling.top_k > 0 ? sampling.top_k : -1},
            {"max_tokens", sampling.max_tokens},
            {"stop_token_ids", sampling.ignore_eos ? Json::array() : Json(sampling.stop_tokens)},
            {"logprobs", sampling.log_probs}};
  }

  Result<Generated> AskAll(std::span<const RolloutRequest> requests, const GenerateHooks& hooks) {
    const std::vector<RequestGroup> groups = GroupRequests(requests, other().in_flight);
    Json asked = Json::array();
    Generated out;
    out.responses.resize(requests.size());
    for (size_t i = 0; i < groups.size(); ++i) {
      RolloutRequest first = requests[groups[i].first];
      first.sampling.max_tokens =
          std::min(first.sampling.max_tokens, other().seq_len - std::ssize(first.prompt));
      out.stats.prompt_tokens += std::ssize(first.prompt);
      asked.push_back(RequestJson(first, groups[i], i));
    }
    talk_->Say({{"op", "generate"}, {"requests", std::move(asked)}});
    std::vector<bool> answered(groups.size(), false);
    for (size_t left = groups.size(); left > 0; --left) {
      NXDKIT_ASSIGN(const Json answer, Hear(other().answer_seconds, hooks.poll));
      const Result<int64_t> id = JsonInt(answer, "id");
      if (!id.ok() || *id < 0 || *id >= std::ssize(groups) || answered[static_cast<size_t>(*id)])
        return Unusable(
            Corrupt("an answer to a request that was not sent: {}", JsonExcerpt(answer)));
      const RequestGroup& group = groups[static_cast<size_t>(*id)];
      answered[static_cast<size_t>(*id)] = true;
      auto responses = ReadSamples(answer, requests.subspan(group.first, group.count));
      if (!responses.ok()) return Unusable(responses.error());
      for (size_t i = 0; i < group.count; ++i) {
        RolloutResponse& response = out.responses[group.first + i];
        response = std::move((*responses)[i]);
        out.stats.response_tokens += std::ssize(response.ids);
        if (hooks.on_response) hooks.on_response(group.first + i, response);
      }
    }
    return out;
  }

  static Error Unusable(const Error& error) {
    return Error(Errc::kIo, "the answer of the program of worker.rollout.command cannot be used: " +
                                error.ToString());
  }

  Result<std::vector<RolloutResponse>> ReadSamples(const Json& answer,
                                                   std::span<const RolloutRequest> requests) const {
    NXDKIT_ASSIGN(const Json* samples, JsonArray(answer, "samples"));
    if (samples->size() != requests.size())
      return Corrupt("{} samples, {} were asked for", samples->size(), requests.size());
    std::vector<RolloutResponse> out;
    for (size_t i = 0; i < requests.size(); ++i) {
      std::vector<float> log_probs;
      if (requests[i].sampling.log_probs) {
        NXDKIT_ASSIGN(const Json* numbers, JsonArray((*samples)[i], "logprobs"));
        NXDKIT_ASSIGN(log_probs, ReadFloats(*numbers));
      }
      NXDKIT_ASSIGN(RolloutResponse response, ReadSample((*samples)[i], std::move(log_probs)));
      NXDKIT_TRY(CheckResponse(response, requests[i], facts_));
      out.push_back(std::move(response));
    }
    return out;
  }

  EngineOptions options_;
  EngineFacts facts_;
  std::unique_ptr<Talk> talk_;
};

}  // namespace

std::unique_ptr<RolloutEngine> MakeExecEngine() { return std::make_unique<ExecEngine>(); }

}  // namespace nxdkit::trainer
