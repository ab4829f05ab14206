#include "trainer/config/check_model.h"

#include <fmt/core.h>

#include "trainer/config/checker.h"

namespace nxdkit::trainer {
namespace {

// `of`: " of the critic", or empty.
void CheckTp(Checker& check, std::string_view key, int64_t tp, const ModelFacts& model,
             std::string_view of = "") {
  if (tp < 1) return;
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
          key, fmt::format("{} {}{} cannot be divided over {} ranks", row.value, row.what, of, tp),
          fix);
  if (model.kv_heads % tp != 0 && tp % model.kv_heads != 0)
    check.Problem(key,
                  fmt::format("{} key heads{} and {} ranks: neither is a multiple of the other",
                              model.kv_heads, of, tp),
                  fix);
}

bool CheckHeads(Checker& check, std::string_view section, const ModelFacts& model) {
  if (model.heads > 0 && model.kv_heads > 0) return true;
  check.Problem(
      fmt::format("{}.model.model_path", section),
      fmt::format("the model has {} attention heads and {} key heads", model.heads, model.kv_heads),
      "", Errc::kCorrupt);
  return false;
}

void CheckPositions(Checker& check, std::string_view whose, const ModelFacts& model) {
  if (model.max_positions > 0 && check.longest_sequence() > model.max_positions)
    check.Problem("data.max_response_length",
                  fmt::format("{} is over {}'s {} positions", check.LongestSequenceText(), whose,
                              model.max_positions));
}

}  // namespace

std::vector<ConfigProblem> CheckModel(const LoadedConfig& loaded, const ModelFacts& model) {
  Checker check(loaded);
  if (!CheckHeads(check, "worker.actor", model)) return check.problems;
  const WorkerConfig& worker = loaded.config.worker;
  CheckTp(check, kTrainTp, worker.actor.tensor_parallel_size, model);
  CheckTp(check, "worker.rollout.tensor_parallel_size", worker.rollout.tensor_parallel_size, model);
  CheckPositions(check, "the model", model);
  return check.problems;
}

std::vector<ConfigProblem> CheckCriticModel(const LoadedConfig& loaded, const ModelFacts& model) {
  Checker check(loaded);
  if (!CheckHeads(check, "worker.critic", model)) return check.problems;
  CheckTp(check, kTrainTp, loaded.config.worker.actor.tensor_parallel_size, model,
          " of the critic");
  CheckPositions(check, "the critic", model);
  return check.problems;
}

}  // namespace nxdkit::trainer
