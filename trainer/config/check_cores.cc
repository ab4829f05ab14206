#include "trainer/config/check_cores.h"

#include <fmt/core.h>

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kRolloutTp = "worker.rollout.tensor_parallel_size";
constexpr std::string_view kRatio = "trainer.training_core_ratio";

// Ratios that divide the cores without a rest.
std::string LegalRatios(const RunPlan& plan) {
  constexpr int64_t kTried = 1 << 16;
  std::string text;
  int shown = 0;
  int64_t train = 0;
  for (int64_t group = 1; group < kTried && shown < 8; ++group) {
    train += plan.train_tp;
    if (train >= plan.cores) break;
    if ((plan.cores - train) % plan.rollout_tp != 0) continue;
    const double ratio = static_cast<double>(train) / static_cast<double>(plan.cores);
    text += fmt::format("{}{:.6g}", shown++ == 0 ? "" : ", ", ratio);
  }
  return text.empty() ? fmt::format("no ratio divides {} cores over TP {} and TP {}", plan.cores,
                                    plan.train_tp, plan.rollout_tp)
                      : fmt::format("legal values of {}: {}", kRatio, text);
}

void CheckDivides(Checker& check, std::string_view key, int64_t cores, int64_t tp,
                  std::string_view what, const std::string& fix) {
  if (cores < tp)
    check.Problem(key, fmt::format("{} {} cores are fewer than one group of {}", cores, what, tp),
                  fix);
  else if (cores % tp != 0)
    check.Problem(
        key, fmt::format("{} {} cores cannot be divided into groups of {}", cores, what, tp), fix);
}

std::string LegalTp(int64_t cores) {
  return "legal values: " +
         LegalValues(std::min<int64_t>(cores, 1024), [&](int64_t tp) { return cores % tp == 0; });
}

void CheckContext(Checker& check) {
  const DataConfig& data = check.config().data;
  const RolloutConfig& rollout = check.config().worker.rollout;
  const int64_t length = data.max_prompt_length + data.max_response_length;
  const auto least = [&](std::string_view key, int64_t value) {
    if (value >= length) return;
    check.Problem(key,
                  fmt::format("{} is less than data.max_prompt_length {} + "
                              "data.max_response_length {} = {}",
                              value, data.max_prompt_length, data.max_response_length, length),
                  fmt::format("set it to {} or more", length));
  };
  least("worker.rollout.max_num_batched_tokens", rollout.max_num_batched_tokens);
  if (rollout.max_model_len) least("worker.rollout.max_model_len", *rollout.max_model_len);
  const std::optional<int64_t> longest = rollout.val_override_config.max_tokens;
  if (longest && *longest > data.max_response_length)
    check.Problem(
        "worker.rollout.val_override_config.max_tokens",
        fmt::format("{} is over data.max_response_length {}", *longest, data.max_response_length));
}

}  // namespace

void CheckCompiled(Checker& check, const RunPlan& plan, std::optional<int64_t> tp,
                   std::optional<int64_t> positions) {
  const DataConfig& data = check.config().data;
  const int64_t length = data.max_prompt_length + data.max_response_length;
  if (tp && *tp != plan.rollout_tp)
    check.Problem(
        "worker.rollout.neuron_override_config.tp_degree",
        fmt::format("the engine is compiled for TP {}, {} is {}", *tp, kRolloutTp, plan.rollout_tp),
        fmt::format("set {} to {}", kRolloutTp, *tp));
  if (positions && length > *positions)
    check.Problem("worker.rollout.neuron_override_config.seq_len",
                  fmt::format("data.max_prompt_length {} + data.max_response_length {} = {} is "
                              "over the {} positions of the engine",
                              data.max_prompt_length, data.max_response_length, length, *positions),
                  "shorten one of them, or compile the engine for more");
}

void CheckCores(Checker& check, const RunPlan& plan) {
  const std::string train_fix = plan.separate ? LegalRatios(plan) : LegalTp(plan.cores);
  const std::string rollout_fix = plan.separate ? train_fix : LegalTp(plan.cores);
  CheckDivides(check, kTrainTp, plan.train_cores, plan.train_tp, "training", train_fix);
  CheckDivides(check, kRolloutTp, plan.rollout_cores, plan.rollout_tp, "rollout", rollout_fix);
  const NeuronOverrideConfig& engine = check.config().worker.rollout.neuron_override_config;
  CheckCompiled(check, plan, engine.tp_degree, engine.seq_len);
  if (!check.config().worker.rollout.model_path && !engine.others.entries.empty())
    check.Note(
        "worker.rollout.neuron_override_config: of other keys than tp_degree, batch_size and "
        "seq_len nothing is taken when the run makes its own bundle (worker.rollout.model_path)");
  CheckContext(check);
}

}  // namespace nxdkit::trainer
