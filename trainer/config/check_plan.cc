#include "trainer/config/check_plan.h"

#include <fmt/core.h>

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kRolloutTp = "worker.rollout.tensor_parallel_size";
constexpr std::string_view kRatio = "trainer.training_core_ratio";

// Ratios that divide the cores without a remainder.
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

// The key that sets the number of cores: "trainer.cores 4 (config.yaml line 12)".
std::string CoresText(const Checker& check) {
  const TrainerConfig& trainer = check.config().trainer;
  const std::string key = trainer.cores ? "trainer.cores" : "trainer.n_gpus_per_node";
  const std::string machines =
      trainer.nnodes > 1 ? fmt::format(" on {} machines", trainer.nnodes) : "";
  return fmt::format("{} {} ({}){}", key, trainer.cores.value_or(trainer.n_gpus_per_node),
                     check.loaded().PlaceOf(key), machines);
}

void CheckDivides(Checker& check, std::string_view key, int64_t cores, int64_t tp,
                  std::string_view what, const std::string& fix) {
  if (cores < tp)
    check.Problem(
        key,
        fmt::format("{} {} cores, of {}, are fewer than one group of {}", cores, what,
                    CoresText(check), tp),
        fmt::format("set trainer.cores to what the machine has{}; {}",
                    check.config().trainer.cores ? "" : ", or name it with --instance", fix));
  else if (cores % tp != 0)
    check.Problem(
        key, fmt::format("{} {} cores cannot be divided into groups of {}", cores, what, tp), fix);
}

std::string LegalTp(int64_t cores) {
  return "legal values: " +
         LegalValues(std::min<int64_t>(cores, 1024), [&](int64_t tp) { return cores % tp == 0; });
}

// Whether one of the groups of `tp` cores from `first` to `end` spans two machines.
bool AreOnTwoMachines(int64_t first, int64_t end, int64_t tp, const RunPlan& plan) {
  const int64_t each = plan.cores / plan.nodes;
  for (int64_t border = each; border < end; border += each)
    if (border > first && (border - first) % tp != 0) return true;
  return false;
}

void CheckMachines(Checker& check, const RunPlan& plan, bool rollout_elsewhere) {
  const int64_t each = plan.cores / plan.nodes;
  if (AreOnTwoMachines(0, plan.train_cores, plan.train_tp, plan))
    check.Note(fmt::format(
        "{} = {}: a group is spread over machines of {} cores, and every layer of every pass waits "
        "for the network between them",
        kTrainTp, plan.train_tp, each));
  const int64_t first = plan.separate ? plan.train_cores : 0;
  if (!rollout_elsewhere && AreOnTwoMachines(first, plan.cores, plan.rollout_tp, plan))
    check.Problem(kRolloutTp,
                  fmt::format("a rollout worker with TP {} does not fit within one of {} "
                              "machines of {} cores",
                              plan.rollout_tp, plan.nodes, each),
                  LegalTp(each));
}

void CheckContext(Checker& check) {
  const int64_t most = check.config().data.max_response_length;
  const RolloutConfig& rollout = check.config().worker.rollout;
  const auto least = [&](std::string_view key, int64_t value) {
    if (value < check.longest_sequence())
      check.Problem(key, fmt::format("{} is less than {}", value, check.LongestSequenceText()),
                    fmt::format("set it to {} or more", check.longest_sequence()));
  };
  least("worker.rollout.max_num_batched_tokens", rollout.max_num_batched_tokens);
  if (rollout.max_model_len) least("worker.rollout.max_model_len", *rollout.max_model_len);
  const std::optional<int64_t> longest = rollout.val_override_config.max_tokens;
  if (longest && *longest > most)
    check.Problem("worker.rollout.val_override_config.max_tokens",
                  fmt::format("{} is over data.max_response_length {}", *longest, most));
}

constexpr std::string_view kPrompts = "data.rollout_batch_size";

// A model that is updated: the actor or the critic.
struct Updater {
  std::string_view name;  // its section: "worker.actor"
  const UpdaterConfig& config;
  int64_t batch = config.global_batch_size;
  int64_t micro = config.micro_batch_size_per_device_for_update;

  std::string Key(std::string_view leaf) const { return fmt::format("{}.{}", name, leaf); }
};

constexpr std::string_view kGlobal = "global_batch_size";
constexpr std::string_view kUpdate = "micro_batch_size_per_device_for_update";

// Whether an update of `batch` prompts divides as required.
bool Fits(const Updater& updater, const RunPlan& plan, int64_t batch) {
  const int64_t rows = batch * plan.samples;
  if (plan.prompts % batch != 0 || rows % plan.data_parallel != 0) return false;
  return rows / plan.data_parallel % updater.micro == 0;
}

std::string LegalBatches(const Updater& updater, const RunPlan& plan) {
  const std::string values =
      LegalValues(plan.prompts, [&](int64_t batch) { return Fits(updater, plan, batch); });
  const std::string key = updater.Key(kGlobal);
  if (!values.empty()) return fmt::format("legal values of {}: {}", key, values);
  return fmt::format("no value of {} fits; a smaller {} or another {} would", key, kUpdate,
                     kPrompts);
}

// The last rule of the chain that fails is the one to report: the others follow from it.
void CheckGlobalBatch(Checker& check, const Updater& updater, const RunPlan& plan) {
  const int64_t batch = updater.batch, micro = updater.micro, ranks = plan.data_parallel;
  const std::string key = updater.Key(kGlobal);
  const int64_t rows = batch * plan.samples;
  if (plan.prompts % batch != 0)
    return check.Problem(
        key, fmt::format("{} {} is not a multiple of {}", kPrompts, plan.prompts, batch),
        LegalBatches(updater, plan));
  if (rows < ranks || rows % ranks != 0)
    return check.Problem(key,
                         fmt::format("{} prompts x {} responses = {} sequences cannot be divided "
                                     "over {} data-parallel ranks",
                                     batch, plan.samples, rows, ranks),
                         LegalBatches(updater, plan));
  const int64_t rank_rows = rows / ranks;
  if (rank_rows % micro != 0)
    return check.Problem(
        updater.Key(kUpdate),
        fmt::format("{} sequences of an update on one data-parallel rank ({} prompts x {} / {}) "
                    "are not a multiple of {}",
                    rank_rows, batch, plan.samples, ranks, micro),
        fmt::format("legal values: {}; or {}",
                    LegalValues(rank_rows, [&](int64_t v) { return rank_rows % v == 0; }),
                    LegalBatches(updater, plan)));
  if (updater.config.fsdp.enable_cpu_offload && rank_rows != micro)
    check.Problem(updater.Key("fsdp.enable_cpu_offload"),
                  fmt::format("it allows no gradient accumulation, but an update has {} sequences "
                              "on one data-parallel rank and a micro-batch has {}",
                              rank_rows, micro),
                  fmt::format("set {} to {}, or this to false", updater.Key(kUpdate), rank_rows));
}

void CheckExperience(Checker& check, const Updater& updater, const RunPlan& plan) {
  const int64_t ranks = plan.data_parallel;
  const int64_t micro = updater.config.micro_batch_size_per_device_for_experience;
  const bool by_rank = !updater.config.dynamic_batching && plan.sequences % ranks == 0;
  const int64_t rows = by_rank ? plan.sequences / ranks : plan.sequences;
  if (rows % micro == 0) return;
  const std::string of = by_rank ? fmt::format(" / {} data-parallel ranks", ranks) : "";
  check.Problem(updater.Key("micro_batch_size_per_device_for_experience"),
                fmt::format("{} prompts x {} responses{} = {} sequences are not a multiple of {}",
                            plan.prompts, plan.samples, of, rows, micro),
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

void CheckCompiled(Checker& check, const RunPlan& plan, std::optional<int64_t> tp,
                   std::optional<int64_t> positions) {
  if (tp && *tp != plan.rollout_tp)
    check.Problem(
        "worker.rollout.neuron_override_config.tp_degree",
        fmt::format("the engine is compiled for TP {}, {} is {}", *tp, kRolloutTp, plan.rollout_tp),
        fmt::format("set {} to {}", kRolloutTp, *tp));
  if (positions && check.longest_sequence() > *positions)
    check.Problem("worker.rollout.neuron_override_config.seq_len",
                  fmt::format("{} is over the {} positions of the engine",
                              check.LongestSequenceText(), *positions),
                  "shorten one of them, or compile the engine for more");
}

void CheckCores(Checker& check, const RunPlan& plan) {
  const std::string train_fix = plan.separate ? LegalRatios(plan) : LegalTp(plan.cores);
  const std::string rollout_fix = plan.separate ? train_fix : LegalTp(plan.rollout_cores);
  CheckDivides(check, kTrainTp, plan.train_cores, plan.train_tp, "training", train_fix);
  const bool elsewhere = !check.config().worker.rollout.url.empty();  // it has cores of its own
  constexpr int64_t kMostMachines = 4096;
  if (plan.nodes > kMostMachines)
    return check.Problem("trainer.nnodes",
                         fmt::format("{} machines, {} are supported", plan.nodes, kMostMachines));
  if (plan.nodes > 1) CheckMachines(check, plan, elsewhere);
  if (!elsewhere)
    CheckDivides(check, kRolloutTp, plan.rollout_cores, plan.rollout_tp, "rollout", rollout_fix);
  const NeuronOverrideConfig& engine = check.config().worker.rollout.neuron_override_config;
  CheckCompiled(check, plan, engine.tp_degree, engine.seq_len);
  if (!check.config().worker.rollout.model_path && !engine.others.entries.empty())
    check.Note(
        "worker.rollout.neuron_override_config: only tp_degree, batch_size and seq_len have an "
        "effect when the run makes its own bundle (without worker.rollout.model_path)");
  CheckContext(check);
}

void CheckBatches(Checker& check, const RunPlan& plan) {
  const ActorConfig& actor = check.config().worker.actor;
  if (plan.rollout_workers > 0) CheckEngines(check, plan);
  if (plan.data_parallel < 1) return;  // CheckCores has reported it
  CheckRanks(check, plan);
  CheckUpdater(check, {"worker.actor", actor}, plan);
  if (NeedsCritic(check.config()))
    CheckUpdater(check, {"worker.critic", check.config().worker.critic}, plan);
  if (actor.loss_avg_mode == "seq" && actor.micro_batch_size_per_device_for_update == 1)
    check.Note(
        "worker.actor.loss_avg_mode = seq with one sequence per micro-batch is the same as token");
}

}  // namespace nxdkit::trainer
