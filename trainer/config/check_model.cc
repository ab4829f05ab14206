// Rules that wait for the model.
#include <fmt/format.h>

#include "trainer/config/checker.h"

namespace nxdkit::trainer {
namespace {

void CheckDivided(Checker& check, std::string_view key, int64_t tp, const ModelFacts& model) {
  const struct {
    const char* what;
    int64_t value;
  } divided[] = {{"attention heads", model.heads},
                 {"rows of the vocabulary", model.vocab},
                 {"intermediate columns", model.intermediate}};
  const auto fits = [&](int64_t ranks) {
    for (const auto& row : divided)
      if (row.value % ranks != 0) return false;
    return model.kv_heads % ranks == 0 || ranks % model.kv_heads == 0;
  };
  const std::string fix = "legal values: " + LegalValues(std::min<int64_t>(model.heads, 128), fits);
  for (const auto& row : divided)
    if (row.value % tp != 0)
      check.Problem(
          key, fmt::format("{} {} cannot be divided over {} ranks", row.value, row.what, tp), fix);
  if (model.kv_heads % tp != 0 && tp % model.kv_heads != 0)
    check.Problem(key,
                  fmt::format("{} key heads and {} ranks: neither is a multiple of the other",
                              model.kv_heads, tp),
                  fix);
}

}  // namespace

std::vector<ConfigProblem> CheckModel(const LoadedConfig& loaded, const ModelFacts& model) {
  Checker check(loaded);
  const Config& config = loaded.config;
  if (model.heads < 1 || model.kv_heads < 1) {
    check.Problem("worker.actor.model.model_path",
                  fmt::format("the model has {} attention heads and {} key heads", model.heads,
                              model.kv_heads),
                  "", Errc::kCorrupt);
    return check.problems;
  }
  const int64_t train_tp = config.worker.actor.tensor_parallel_size;
  const int64_t rollout_tp = config.worker.rollout.tensor_parallel_size;
  if (train_tp > 0) CheckDivided(check, "worker.actor.tensor_parallel_size", train_tp, model);
  if (rollout_tp > 0) CheckDivided(check, "worker.rollout.tensor_parallel_size", rollout_tp, model);
  const int64_t length = config.data.max_prompt_length + config.data.max_response_length;
  if (model.max_positions > 0 && length > model.max_positions)
    check.Problem("data.max_response_length",
                  fmt::format("data.max_prompt_length {} + data.max_response_length {} = {} is "
                              "over the model's {} positions",
                              config.data.max_prompt_length, config.data.max_response_length,
                              length, model.max_positions));
  return check.problems;
}

}  // namespace nxdkit::trainer
