#include "trainer/reward/exec_reward.h"

#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/child.h"
#include "lib/system/command_text.h"
#include "lib/system/last_words.h"
#include "lib/system/process.h"

namespace nxdkit::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxLine = 1 << 20;        // bytes of one answer
constexpr size_t kMaxNumbers = 64;          // in one answer
constexpr int64_t kPollMilliseconds = 100;  // the latest that an interruption is noticed

std::string LineOf(const RewardSample& sample) {
  const Json json = {{"response", std::string(sample.response)},
                     {"response_length", sample.tokens},
                     {"ground_truth", std::string(sample.ground_truth)}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

Result<Scores> ReadAnswer(std::string_view line) {
  Result<Json> json = ParseJson(line, {.allow_nan = true});
  if (!json.ok())
    return Corrupt("its answer is not JSON ({}): {}", json.error().message(),
                   EscapeControl(line.substr(0, 60)));
  if (!json->is_object())
    return Corrupt("its answer is {}, expected an object", JsonTypeText(*json));
  if (json->size() > kMaxNumbers)
    return Corrupt("its answer has {} numbers, over the limit of {}", json->size(), kMaxNumbers);
  Scores scores;
  for (const auto& [name, value] : json->items()) {
    if (!value.is_number())
      return Corrupt("its {} is {}, expected a number", EscapeControl(name), JsonTypeText(value));
    const double number = value.get<double>();
    if (!std::isfinite(number))
      return Corrupt("its {} is {}, expected a finite number", EscapeControl(name), number);
    scores[name] = number;
  }
  if (!scores.contains(kOverall))
    return Corrupt("its answer has no \"{}\": {}", kOverall, JsonExcerpt(*json));
  return scores;
}

// The input and output of one batch.
struct Exchange {
  std::string input;
  size_t written = 0;
  size_t expected = 0;
  std::vector<std::string> lines = {};
  std::string rest = {};            // of the output, after the last line
  std::vector<Scores> scores = {};  // from the lines
  bool ended = false;

  bool done() const { return scores.size() == expected && written == input.size(); }
  bool heard() const { return !lines.empty() || !rest.empty(); }
};

class ExecReward : public Reward {
 public:
  ExecReward(std::string program, std::vector<std::string> words, double timeout_seconds)
      : program_(std::move(program)), words_(std::move(words)), timeout_(timeout_seconds) {}
  ~ExecReward() override { End(); }

  Result<std::vector<Scores>> Score(std::span<const RewardSample> samples,
                                    const ScoreHooks& hooks) override {
    if (samples.empty()) return std::vector<Scores>();
    Result<std::vector<Scores>> scores = ScoreBatch(samples, hooks);
    // The rest of its output would be taken for answers to the next batch.
    if (!scores.ok()) child_.reset();
    return scores;
  }

 private:
  Result<std::vector<Scores>> ScoreBatch(std::span<const RewardSample> samples,
                                         const ScoreHooks& hooks) {
    const Clock::time_point until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                       std::chrono::duration<double>(timeout_));
    std::string input;
    for (const RewardSample& sample : samples) input += LineOf(sample);
    NXDKIT_ASSIGN(const bool fresh, Ready());
    Exchange exchange = {.input = std::move(input), .expected = samples.size()};
    NXDKIT_TRY(Run(exchange, until, hooks));
    if (exchange.ended && !fresh && !exchange.heard()) {
      // It had ended before it could receive this batch.
      End();
      NXDKIT_TRY(Ready());
      exchange.ended = false;
      exchange.written = 0;
      NXDKIT_TRY(Run(exchange, until, hooks));
    }
    if (exchange.scores.size() < samples.size()) return EndedEarly(exchange);
    if (!exchange.rest.empty()) return TooManyAnswers(samples.size());
    return std::move(exchange.scores);
  }

  // Makes sure that a program runs and has no output left; returns whether it was just started.
  Result<bool> Ready() {
    if (child_) {
      Exchange before;
      Read(before);
      if (before.heard()) return TooManyAnswers(0);
      if (before.ended || child_->process.HasEnded()) End();
    }
    if (child_) return false;
    last_words_.Clear();
    NXDKIT_ASSIGN(
        child_,
        StartChild({.program = program_, .words = words_, .environment = WholeEnvironment()}));
    return true;
  }

  void End() {
    if (child_) child_->End();
    child_.reset();
  }

  // Runs until everything is sent and received, or the program has ended.
  Status Run(Exchange& exchange, Clock::time_point until, const ScoreHooks& hooks) {
    while (!exchange.done() && !exchange.ended) {
      if (hooks.poll) NXDKIT_TRY(hooks.poll());
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
      if (left <= 0) return TimedOut(exchange);
      const bool more = exchange.written < exchange.input.size();
      pollfd waiting[] = {{child_->out.fd(), POLLIN, 0},
                          {child_->err.fd(), POLLIN, 0},
                          {more ? child_->in.fd() : -1, POLLOUT, 0}};
      ::poll(waiting, 3, static_cast<int>(std::min<int64_t>(left, kPollMilliseconds)));
      if (waiting[1].revents != 0) last_words_.Read(*child_);
      if (waiting[0].revents != 0) Read(exchange);
      if (waiting[2].revents != 0) Write(exchange);
      NXDKIT_TRY(ReadAnswers(exchange, hooks));
      if (hooks.progress) hooks.progress(exchange.scores.size());
      if (exchange.rest.size() > kMaxLine)
        return BadAnswer(Corrupt("its answer is longer than the limit of {} bytes", kMaxLine),
                         exchange.lines.size(), hooks);
    }
    return OkStatus();
  }

  Status ReadAnswers(Exchange& exchange, const ScoreHooks& hooks) {
    for (size_t i = exchange.scores.size(); i < exchange.lines.size(); ++i) {
      if (i == exchange.expected) return TooManyAnswers(exchange.expected);
      Result<Scores> answer = ReadAnswer(exchange.lines[i]);
      if (!answer.ok()) return BadAnswer(std::move(answer).error(), i, hooks);
      exchange.scores.push_back(*std::move(answer));
    }
    return OkStatus();
  }

  void Write(Exchange& exchange) {
    const std::string_view left = std::string_view(exchange.input).substr(exchange.written);
    const ssize_t written = WriteQuietly(child_->in.fd(), left);
    if (written > 0) exchange.written += static_cast<size_t>(written);
    if (written >= 0 || errno != EPIPE) return;
    // It no longer reads its input, but may still answer what it has read.
    child_->in.Close();
    exchange.written = exchange.input.size();
  }

  void Read(Exchange& exchange) {
    char buffer[1 << 16];
    const std::optional<std::string_view> some = ReadSome(child_->out, buffer);
    if (!some) return;
    exchange.ended = some->empty();
    for (std::string_view left = *some; !left.empty();) {
      const size_t end = left.find('\n');
      exchange.rest += left.substr(0, end);
      if (end == std::string_view::npos) break;
      exchange.lines.push_back(std::exchange(exchange.rest, std::string()));
      left.remove_prefix(end + 1);
    }
  }

  // The error, with the end of the program's standard error.
  Error WithLastOutput(const Error& error) {
    if (child_) last_words_.Read(*child_);
    return last_words_.AddTo(error).in(program_);
  }

  Error BadAnswer(Error error, size_t sample, const ScoreHooks& hooks) {
    if (hooks.bad) hooks.bad(sample);
    return WithLastOutput(std::move(error).member(fmt::format("sample {}", sample)));
  }

  Error EndedEarly(const Exchange& exchange) {
    last_words_.Read(*child_);
    child_->End();
    return WithLastOutput(
        Error(Errc::kIo,
              fmt::format("the reward program {} after {} of {} answers", child_->process.EndText(),
                          exchange.lines.size(), exchange.expected)));
  }

  Error TimedOut(const Exchange& exchange) {
    child_->process.Kill();
    return WithLastOutput(
        OverLimit("the reward program gave {} of {} answers within {} seconds, and was killed",
                  exchange.lines.size(), exchange.expected, timeout_));
  }

  Error TooManyAnswers(size_t expected) {
    return WithLastOutput(Error(
        Errc::kCorrupt, expected == 0
                            ? "the reward program wrote something between two batches"
                            : fmt::format("the reward program wrote more than {} answers to {} "
                                          "samples",
                                          expected, expected)));
  }

  std::string program_;
  std::vector<std::string> words_;
  double timeout_;
  std::optional<Child> child_;
  LastWords last_words_;
};

}  // namespace

Result<std::unique_ptr<Reward>> MakeExecReward(const std::string& command, double timeout_seconds) {
  NXDKIT_ASSIGN(std::vector<std::string> words, SplitCommand(command));
  const std::optional<std::string> program = FindProgram(words[0]);
  if (!program) return NotFound("no such program, or it may not be executed").in(words[0]);
  return std::unique_ptr<Reward>(
      std::make_unique<ExecReward>(*program, std::move(words), timeout_seconds));
}

}  // namespace nxdkit::trainer
