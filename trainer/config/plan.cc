#include "trainer/config/plan.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "trainer/algo/schedule.h"

namespace nxdkit::trainer {
namespace {

int64_t Quotient(int64_t a, int64_t b) { return b == 0 ? 0 : a / b; }
// Our own engine gets as many workers as the cores allow; a server of another program may use all
// cores.
int64_t RolloutWorkers(const RolloutConfig& rollout, const RunPlan& plan) {
  const int64_t by_cores = Quotient(plan.rollout_cores, plan.rollout_tp);
  const bool in_turn = plan.nodes > 1 && !plan.separate;
  if (rollout.engine == "cpu") return in_turn ? plan.nodes : by_cores;
  if (!rollout.url.empty()) return std::ssize(rollout.url);
  return rollout.servers.value_or(plan.separate ? by_cores : plan.nodes);
}

// Workers with a URL are addressed from the machine of the loop.
void PlaceOnMachines(const RolloutConfig& rollout, RunPlan& plan) {
  constexpr int64_t kMost = 1 << 16;  // in a configuration that is refused anyway
  const int64_t each = Quotient(plan.cores, plan.nodes);
  for (int64_t m = 0; m < std::min(plan.nodes, kMost); ++m)
    plan.ranks_of_machine.push_back(std::clamp<int64_t>(plan.train_cores - m * each, 0, each));
  for (int64_t w = 0; w < std::min(plan.rollout_workers, kMost); ++w) {
    int64_t machine = w % plan.nodes;
    if (plan.separate) machine = Quotient(plan.train_cores + w * plan.rollout_tp, each);
    if (!rollout.url.empty()) machine = 0;
    plan.machine_of_worker.push_back(std::min(machine, plan.nodes - 1));
  }
}

int64_t RoundedUp(int64_t a, int64_t b) { return b == 0 ? 0 : (a + b - 1) / b; }

// "machine 1: process 1, 4 threads, TP ranks 0 to 1 of DP ranks 2 to 3; rollout workers 4 to 5"
std::string MachineText(const RunPlan& plan, int64_t machine) {
  const auto range = [](const char* what, int64_t first, int64_t count) {
    return count == 1 ? fmt::format("{} {}", what, first)
                      : fmt::format("{}s {} to {}", what, first, first + count - 1);
  };
  std::string text = fmt::format("machine {}: process {}", machine, machine);
  const auto ranks = plan.ranks_of_machine.begin();
  const int64_t threads = ranks[machine];
  const int64_t first = std::reduce(ranks, ranks + machine);
  if (threads > 0 && first % plan.train_tp == 0 && threads % plan.train_tp == 0)
    text += fmt::format(", {} threads, TP ranks 0 to {} of {}", threads, plan.train_tp - 1,
                        range("DP rank", first / plan.train_tp, threads / plan.train_tp));
  else if (threads > 0)
    text += fmt::format(", {} threads, {} of the mesh (the TP rank changes fastest)", threads,
                        range("rank", first, threads));
  std::vector<size_t> workers;
  for (size_t w = 0; w < plan.machine_of_worker.size(); ++w)
    if (plan.machine_of_worker[w] == machine) workers.push_back(w);
  if (!workers.empty() && workers.back() - workers.front() + 1 == workers.size())
    text +=
        "; " + range("rollout worker", static_cast<int64_t>(workers.front()), std::ssize(workers));
  else if (!workers.empty())
    text += fmt::format("; rollout workers {}", fmt::join(workers, ", "));
  return text + (machine == 0 ? "; the loop and the rewards\n" : "\n");
}

}  // namespace

RunPlan MakeRunPlan(const Config& config) {
  const ActorConfig& actor = config.worker.actor;
  const RolloutConfig& rollout = config.worker.rollout;
  const TrainerConfig& trainer = config.trainer;
  RunPlan plan;
  const int64_t cores_of_each = trainer.cores.value_or(trainer.n_gpus_per_node);
  plan.nodes = trainer.nnodes;
  plan.cores = cores_of_each * plan.nodes;
  plan.separate = trainer.separate_rollout_workers;
  // 0.7 is a little less in binary, and a third is written with six digits.
  const double share = static_cast<double>(plan.cores) * (trainer.training_core_ratio + 1e-6);
  plan.train_cores = plan.separate ? static_cast<int64_t>(std::floor(share)) : plan.cores;
  plan.rollout_cores = plan.separate ? plan.cores - plan.train_cores : plan.cores;
  plan.train_tp = actor.tensor_parallel_size;
  plan.data_parallel = Quotient(plan.train_cores, plan.train_tp);
  plan.rollout_tp = rollout.tensor_parallel_size;
  plan.rollout_workers = RolloutWorkers(rollout, plan);
  PlaceOnMachines(rollout, plan);

  plan.prompts = config.data.rollout_batch_size;
  plan.samples = rollout.n;
  plan.sequences = plan.prompts * plan.samples;
  plan.prompts_per_call = config.data.mini_rollout_batch_size.value_or(plan.prompts);
  plan.sequences_per_worker = Quotient(plan.prompts_per_call * plan.samples, plan.rollout_workers);
  plan.waves =
      RoundedUp(plan.sequences_per_worker, rollout.neuron_override_config.batch_size.value_or(0));
  plan.rows_per_update = Quotient(actor.global_batch_size * plan.samples, plan.data_parallel);
  plan.updates_per_step = Quotient(plan.prompts, actor.global_batch_size) * actor.ppo_epochs;
  if (!NeedsCritic(config)) return plan;
  const CriticConfig& critic = config.worker.critic;
  plan.critic_rows_per_update =
      Quotient(critic.global_batch_size * plan.samples, plan.data_parallel);
  plan.critic_updates_per_step =
      Quotient(plan.prompts, critic.global_batch_size) * critic.ppo_epochs;
  return plan;
}

std::string RunPlanText(const RunPlan& plan) {
  std::string text =
      plan.separate
          ? fmt::format(
                "{}: {} for training (TP {} x DP {}), {} for rollout "
                "({} x TP {})\n",
                Counted(plan.cores, "core"), plan.train_cores, plan.train_tp, plan.data_parallel,
                plan.rollout_cores, Counted(plan.rollout_workers, "worker"), plan.rollout_tp)
          : fmt::format("{}: training TP {} x DP {}, rollout {} x TP {}\n",
                        Counted(plan.cores, "core"), plan.train_tp, plan.data_parallel,
                        Counted(plan.rollout_workers, "worker"), plan.rollout_tp);
  for (int64_t machine = 0; plan.nodes > 1 && machine < std::ssize(plan.ranks_of_machine);
       ++machine)
    text += MachineText(plan, machine);
  text += fmt::format("{} x {} = {} a step, {} per rollout worker", Counted(plan.prompts, "prompt"),
                      Counted(plan.samples, "response"), Counted(plan.sequences, "sequence"),
                      Grouped(plan.sequences_per_worker));
  if (plan.waves > 0) text += " in " + Counted(plan.waves, "wave");
  const auto updates = [](const char* of, int64_t count, int64_t rows) {
    return fmt::format("{}{} a step, {} of each on a data-parallel rank\n",
                       Counted(count, "update"), of, Counted(rows, "sequence"));
  };
  text += "\n" + updates("", plan.updates_per_step, plan.rows_per_update);
  if (plan.critic_updates_per_step > 0)
    text += updates(" of the critic", plan.critic_updates_per_step, plan.critic_rows_per_update);
  return text;
}

Result<int64_t> TrainingSteps(const Config& config, int64_t train_rows, int64_t val_rows) {
  const TrainerConfig& trainer = config.trainer;
  const int64_t wanted = config.data.rollout_batch_size;
  const int64_t batch = config.data.mini_rollout_batch_size.value_or(wanted);
  const int64_t batches = Quotient(train_rows, batch);
  if (batches < 1)
    return BadUsage("{} training rows are less than one batch of {}", train_rows, batch)
        .member("data.train_files")
        .hint(
            "lower data.rollout_batch_size or data.mini_rollout_batch_size, or raise "
            "data.max_prompt_length when too many rows are filtered as too long");
  const bool validates = trainer.val_freq > 0 || trainer.val_before_train || trainer.val_only;
  if (validates && val_rows < 1)
    return BadUsage("there are no validation rows")
        .member("data.val_files")
        .hint("set data.val_files, or trainer.val_freq=-1 and trainer.val_before_train=false");
  if (trainer.max_steps) return *trainer.max_steps;
  // For batches = rows / B both rules agree.
  const int64_t per_epoch = batches * batch / wanted;
  if (per_epoch < 1)
    return BadUsage("{} batches of {} prompts are less than one step of {}", batches, batch, wanted)
        .member("data.rollout_batch_size");
  return CheckedMul(per_epoch, trainer.total_epochs).value_or(INT64_MAX);
}

int64_t RolloutPositions(const Config& config) {
  const RolloutConfig& rollout = config.worker.rollout;
  const int64_t row = config.data.max_prompt_length + config.data.max_response_length;
  return rollout.neuron_override_config.seq_len.value_or(rollout.max_model_len.value_or(row));
}

Dtype RolloutDtype(const RolloutConfig& rollout) {
  return rollout.dtype == "fp32" ? Dtype::kF32 : Dtype::kBF16;
}

int64_t WarmupSteps(const OptimConfig& optim, int64_t training_steps) {
  return WarmupSteps(optim.lr_warmup_steps.value_or(-1), optim.lr_warmup_ratio, training_steps);
}

}  // namespace nxdkit::trainer
