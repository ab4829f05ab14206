// The use of the cores by a configuration, and the batch arithmetic that follows from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/tensor/dtype.h"
#include "trainer/config/config.h"

namespace nxdkit::trainer {

struct RunPlan {
  int64_t nodes = 1;  // machines, with a process each
  int64_t cores = 0;  // on all machines
  int64_t train_cores = 0;
  // The same cores as train_cores unless separate.
  int64_t rollout_cores = 0;
  bool separate = false;
  int64_t train_tp = 0;
  int64_t data_parallel = 0;  // train_cores / train_tp
  int64_t rollout_tp = 0;
  // rollout_cores / rollout_tp; one per machine, with all its cores, when the same cores do both on
  // several machines.
  int64_t rollout_workers = 0;
  // Cores are assigned machine by machine, those of training first: the number of ranks of the mesh
  // on each machine, and the machine of each rollout worker.
  std::vector<int64_t> ranks_of_machine;
  std::vector<int64_t> machine_of_worker;
  // Whether rollout workers are processes separate from that of the loop.
  bool worker_processes() const { return separate || nodes > 1; }

  int64_t prompts = 0;               // B
  int64_t samples = 0;               // n
  int64_t sequences = 0;             // B * n
  int64_t prompts_per_call = 0;      // b, for all engines together
  int64_t sequences_per_worker = 0;  // for one rollout worker in one call
  int64_t waves = 0;                 // of the engine's slots; 0 if their number is unknown
  int64_t rows_per_update = 0;       // G * n / data_parallel, on each data-parallel rank
  int64_t updates_per_step = 0;      // B / G * ppo_epochs
  // For the critic, on the same ranks; 0 when the advantages need none.
  int64_t critic_rows_per_update = 0;
  int64_t critic_updates_per_step = 0;
};

// Divides like integers, so it is exact for a configuration without problems (CheckConfig); a
// quotient by 0 is 0. All its inputs must be at most 2^31.
RunPlan MakeRunPlan(const Config& config);

// "32 cores: 16 for training (TP 8 x DP 2), 16 for rollout (2 workers x TP 8)\n64 prompts x 4 ..."
std::string RunPlanText(const RunPlan& plan);

// The steps of the whole run: max_steps, or epochs over the training rows left after filtering; an
// incomplete last batch of an epoch is dropped. kUsage when the rows do not fill one batch, or when
// validation is on and there is no row for it (val_rows).
Result<int64_t> TrainingSteps(const Config& config, int64_t train_rows, int64_t val_rows);

// The longest sequence of an engine, if no bundle determines it.
int64_t RolloutPositions(const Config& config);

// The dtype of the engine's weights and cache: worker.rollout.dtype.
Dtype RolloutDtype(const RolloutConfig& rollout);

// The warm-up steps of a schedule: lr_warmup_steps, else by lr_warmup_ratio.
int64_t WarmupSteps(const OptimConfig& optim, int64_t training_steps);

}  // namespace nxdkit::trainer
