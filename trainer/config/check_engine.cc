#include "trainer/config/check_engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "lib/base/text.h"
#include "lib/system/command_text.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kEngine = "worker.rollout.engine";
constexpr std::string_view kUrl = "worker.rollout.url";
constexpr std::string_view kCommand = "worker.rollout.command";
constexpr std::string_view kServers = "worker.rollout.servers";
constexpr std::string_view kLayout = "worker.rollout.engine_layout";

// Limits of vLLM 0.32: temperatures below the first are raised to it, above the second refused.
constexpr double kLeastTemperature = 0.01;
constexpr double kMostTemperature = 2;
constexpr int64_t kMostSamples = 16384;

// Keys that only matter to engines of other programs.
constexpr std::array<std::string_view, 8> kOthersKeys = {kUrl,
                                                         kCommand,
                                                         kServers,
                                                         "worker.rollout.max_in_flight",
                                                         "worker.rollout.start_timeout_s",
                                                         "worker.rollout.answer_timeout_s",
                                                         "worker.rollout.enable_expert_parallel",
                                                         kLayout};

// Whether the value is null or an empty list, which undoes the key.
bool IsUnsetValue(const RolloutConfig& rollout, std::string_view key) {
  return (key == kCommand && !rollout.command) || (key == kUrl && rollout.url.empty()) ||
         (key == kServers && !rollout.servers);
}

void CheckOwn(Checker& check) {
  for (const std::string_view key : kOthersKeys)
    if (check.IsSet(key) && !IsUnsetValue(check.config().worker.rollout, key))
      check.Problem(key, "this program's own engine takes none",
                    fmt::format("set {} to vllm or exec, or leave it out", kEngine));
}

void CheckCommand(Checker& check, const std::string& command, bool serves) {
  const auto words = SplitCommand(command);
  if (!words.ok()) return check.Problem(kCommand, words.error().message());
  if (words->empty()) return check.Problem(kCommand, "the command is empty");
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(
        *words, [&](const std::string& word) { return word.find(name) != word.npos; });
  };
  for (const char* name : {"{model}", "{port}"})
    if (serves && !has(name))
      check.Problem(kCommand, fmt::format("it has no {}", name),
                    "such as: vllm serve {model} --port {port}");
}

void CheckUrls(Checker& check) {
  const RolloutConfig& rollout = check.config().worker.rollout;
  for (const std::string& url : rollout.url) {
    const std::string shown = EscapeControl(url);
    const bool whole = url.starts_with("http://") || url.starts_with("https://");
    if (!whole || url.ends_with("/v1") || url.ends_with("/v1/"))
      check.Problem(kUrl, fmt::format("{} is not the URL of a server", shown),
                    "such as: [http://127.0.0.1:8000]");
    if (std::ranges::count(rollout.url, url) > 1)
      return check.Problem(kUrl, fmt::format("{} is listed twice", shown));
  }
  if (!rollout.url.empty() && rollout.model_path)
    check.Problem(kUrl,
                  "a running server takes Hugging Face folders, not the bundle of "
                  "worker.rollout.model_path",
                  "leave one of them out");
  if (!rollout.url.empty() && rollout.temperature != 1)
    check.Note(
        fmt::format("worker.rollout.url: at temperature {} the servers must have been started "
                    "with --logprobs-mode processed_logprobs",
                    rollout.temperature));
  if (!rollout.url.empty() && rollout.command)
    check.Problem(kCommand, fmt::format("{} names running servers", kUrl), "leave one of them out");
  if (!rollout.url.empty() && rollout.engine_layout == "vllm-neuron")
    check.Problem(kUrl, "a running vLLM Neuron server cannot load new weights",
                  fmt::format("name the command that starts one with {}", kCommand));
  if (!rollout.url.empty() && rollout.servers)
    check.Problem(kServers, fmt::format("{} names them", kUrl), "leave it out");
}

void CheckVllmSampling(Checker& check) {
  const RolloutConfig& rollout = check.config().worker.rollout;
  const auto temperature = [&](std::string_view key, double value) {
    if (value == 0 || (value >= kLeastTemperature && value <= kMostTemperature)) return;
    check.Problem(key, fmt::format("vLLM samples at {} to {}, found {}", kLeastTemperature,
                                   kMostTemperature, value));
  };
  temperature("worker.rollout.temperature", rollout.temperature);
  if (rollout.val_override_config.temperature)
    temperature("worker.rollout.val_override_config.temperature",
                *rollout.val_override_config.temperature);
  if (rollout.n > kMostSamples)
    check.Problem("worker.rollout.n",
                  fmt::format("vLLM generates at most {} samples of a prompt", kMostSamples));
  // Raw log-probabilities are those at temperature 1, processed ones those of the tokens that top_k
  // and top_p keep; the loss needs neither.
  const bool filters = rollout.top_p < 1 || rollout.top_k > 0;
  if (rollout.temperature != 1 && filters)
    check.Problem("worker.rollout.temperature",
                  fmt::format("with top_k or top_p vLLM has the log-probabilities for training "
                              "only at temperature 1, found {}",
                              rollout.temperature),
                  "set it to 1, or top_p to 1 and top_k to -1");
}

}  // namespace

void CheckEngine(Checker& check) {
  const RolloutConfig& rollout = check.config().worker.rollout;
  if (rollout.engine == "cpu") return CheckOwn(check);
  const bool serves = rollout.engine == "vllm";
  if (!serves && !rollout.command)
    check.Problem(kCommand, fmt::format("{} is exec, and no program is named", kEngine),
                  "set it to the command, with its words");
  if (!serves && !rollout.url.empty())
    check.Problem(kUrl, "the program of engine exec is used over its standard streams",
                  fmt::format("set {} to vllm, or leave it out", kEngine));
  if (rollout.command) CheckCommand(check, *rollout.command, serves);
  if (serves) CheckUrls(check);
  if (serves) CheckVllmSampling(check);
}

}  // namespace nxdkit::trainer
