#include "trainer/config/check_batch.h"

#include <fmt/core.h>

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kPrompts = "data.rollout_batch_size";

// The section of the actor or the critic.
struct Updater {
  std::string_view name;  // "worker.actor"
  const UpdaterConfig& config;

  std::string Key(std::string_view leaf) const { return fmt::format("{}.{}", name, leaf); }
};

constexpr std::string_view kGlobal = "global_batch_size";
constexpr std::string_view kUpdate = "micro_batch_size_per_device_for_update";

// Whether an update of `batch` prompts can be cut as it must be.
bool Fits(const Updater& updater, const RunPlan& plan, int64_t batch) {
  const int64_t rows = batch * plan.samples;
  if (plan.prompts % batch != 0 || rows % plan.data_parallel != 0) return false;
  return rows / plan.data_parallel % updater.config.micro_batch_size_per_device_for_update == 0;
}

std::string LegalBatches(const Updater& updater, const RunPlan& plan) {
  const std::string values =
      LegalValues(plan.prompts, [&](int64_t batch) { return Fits(updater, plan, batch); });
  const std::string key = updater.Key(kGlobal);
  if (!values.empty()) return fmt::format("legal values of {}: {}", key, values);
  return fmt::format(
      "no value of {} fits; a smaller micro_batch_size_per_device_for_update or "
      "another {} would",
      key, kPrompts);
}

// The last rule of the chain that fails is the one to show: the others follow from it.
void CheckGlobalBatch(Checker& check, const Updater& updater, const RunPlan& plan) {
  const std::string key = updater.Key(kGlobal);
  const int64_t rows = updater.config.global_batch_size * plan.samples;
  if (plan.prompts % updater.config.global_batch_size != 0)
    return check.Problem(key,
                         fmt::format("{} {} is not a multiple of {}", kPrompts, plan.prompts,
                                     updater.config.global_batch_size),
                         LegalBatches(updater, plan));
  if (rows < plan.data_parallel || rows % plan.data_parallel != 0)
    return check.Problem(
        key,
        fmt::format("{} prompts x {} responses = {} sequences cannot be divided "
                    "over {} data-parallel ranks",
                    updater.config.global_batch_size, plan.samples, rows, plan.data_parallel),
        LegalBatches(updater, plan));
  const int64_t rank_rows = rows / plan.data_parallel;
  if (rank_rows % updater.config.micro_batch_size_per_device_for_update != 0)
    return check.Problem(
        updater.Key(kUpdate),
        fmt::format("{} sequences of an update on one data-parallel rank ({} prompts x {} / {}) "
                    "are not a multiple of {}",
                    rank_rows, updater.config.global_batch_size, plan.samples, plan.data_parallel,
                    updater.config.micro_batch_size_per_device_for_update),
        fmt::format("legal values: {}; or {}",
                    LegalValues(rank_rows, [&](int64_t v) { return rank_rows % v == 0; }),
                    LegalBatches(updater, plan)));
  if (updater.config.fsdp.enable_cpu_offload &&
      rank_rows != updater.config.micro_batch_size_per_device_for_update)
    check.Problem(updater.Key("fsdp.enable_cpu_offload"),
                  fmt::format("it allows no gradient accumulation, but an update has {} sequences "
                              "on one data-parallel rank and a micro-batch has {}",
                              rank_rows, updater.config.micro_batch_size_per_device_for_update),
                  fmt::format("set {} to {}, or this to false", updater.Key(kUpdate), rank_rows));
}

void CheckExperience(Checker& check, const Updater& updater, const RunPlan& plan) {
  const std::string key = updater.Key("micro_batch_size_per_device_for_experience");
  const int64_t ranks = plan.data_parallel;
  const bool by_rank = !updater.config.dynamic_batching && plan.sequences % ranks == 0;
  const int64_t rows = by_rank ? plan.sequences / ranks : plan.sequences;
  if (rows % updater.config.micro_batch_size_per_device_for_experience == 0) return;
  const std::string of = by_rank ? fmt::format(" / {} data-parallel ranks", ranks) : "";
  check.Problem(key,
                fmt::format("{} prompts x {} responses{} = {} sequences are not a multiple of {}",
                            plan.prompts, plan.samples, of, rows,
                            updater.config.micro_batch_size_per_device_for_experience),
                "legal values: " + LegalValues(std::min<int64_t>(rows, 256),
                                               [&](int64_t v) { return rows % v == 0; }));
}

void CheckUpdater(Checker& check, const Updater& updater, const RunPlan& plan) {
  CheckGlobalBatch(check, updater, plan);
  CheckExperience(check, updater, plan);
}

void CheckRanks(Checker& check, const RunPlan& plan) {
  if (plan.sequences % plan.data_parallel != 0)
    check.Problem(kPrompts,
                  fmt::format("{} prompts x {} responses = {} sequences cannot be divided over {} "
                              "data-parallel ranks",
                              plan.prompts, plan.samples, plan.sequences, plan.data_parallel),
                  fmt::format("use a multiple of {}", plan.data_parallel));
}

void CheckEngines(Checker& check, const RunPlan& plan) {
  if (plan.prompts_per_call % plan.rollout_workers == 0) return;
  const std::string_view key =
      check.config().data.mini_rollout_batch_size ? "data.mini_rollout_batch_size" : kPrompts;
  check.Problem(key,
                fmt::format("{} prompts cannot be divided over {} rollout workers",
                            plan.prompts_per_call, plan.rollout_workers),
                fmt::format("use a multiple of {}", plan.rollout_workers));
}

}  // namespace

void CheckBatches(Checker& check, const RunPlan& plan) {
  const ActorConfig& actor = check.config().worker.actor;
  if (plan.rollout_workers > 0) CheckEngines(check, plan);
  if (plan.data_parallel < 1) return;  // CheckCores has told
  CheckRanks(check, plan);
  CheckUpdater(check, {"worker.actor", actor}, plan);
  if (NeedsCritic(check.config()))
    CheckUpdater(check, {"worker.critic", check.config().worker.critic}, plan);
  if (actor.loss_avg_mode == "seq" && actor.micro_batch_size_per_device_for_update == 1)
    check.Note(
        "worker.actor.loss_avg_mode = seq with one sequence per micro-batch is the same as token");
}

}  // namespace nxdkit::trainer
