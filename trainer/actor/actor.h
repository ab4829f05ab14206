// The policy under training on a TP x DP mesh of threads: log-probabilities of sampled rows,
// updates, and its state as memory that checkpoints and rollout bundles are made from. Also,
// frozen, the reference policy.
//
// Every data-parallel rank holds all weights of its tensor-parallel ranks and sees its own rows;
// gradients are summed over the data-parallel ranks in rank order, once per update.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "formats/ops/artifact.h"
#include "trainer/actor/rank_optimizer.h"
#include "trainer/actor/rows.h"
#include "trainer/actor/training_tag.h"
#include "trainer/comm/thread_world.h"

namespace nxdkit::trainer {

struct ActorOptions {
  int tp = 1;
  int dp = 1;
  int threads_per_rank = 1;
  DecoderOptions decoder;
  float temperature = 1;
  double max_grad_norm = 1;
  struct MicroBatch {
    int64_t max_tokens = 0;
    int64_t max_rows = 0;  // 0: as max_tokens allows
  };
  MicroBatch update{};         // forward and backward
  MicroBatch experience{};     // forward alone
  OptimizerOptions optimizer;  // of a trainable decoder
};

// Of the tokens of each row's response, in the order of the rows.
struct RowLogProbs {
  std::vector<std::vector<float>> log_probs;
  std::vector<std::vector<float>> entropies;
};

// How one update went.
struct UpdateResult {
  double grad_norm = 0;  // before clipping
  bool skipped = false;  // the norm was not finite: nothing was changed
};

class Actor {
 public:
  // The weights come from `source`, an opened artifact of the same model. `config` must outlive the
  // actor.
  static Result<std::unique_ptr<Actor>> Make(const DecoderConfig& config,
                                             const ActorOptions& options,
                                             const ops::BoundArtifact& source);
  ~Actor();

  // Rows are cut into dp contiguous shares: their number must be a multiple of dp.
  Result<RowLogProbs> LogProbs(std::span<const Row> rows);

  // The gradient of the loss by each log-probability of a micro-batch: `rows` names its rows, in
  // order, log_probs and gradient hold the tokens of their responses behind one another. Called on
  // all ranks; those with `record` false must get the same gradient and count nothing. Calls with
  // `record` come one at a time per `dp_rank`, from different threads for different ones.
  using Loss = std::function<Status(int dp_rank, bool record, std::span<const size_t> rows,
                                    std::span<const float> log_probs, std::span<float> gradient)>;
  // One optimizer step on shares[d] of `rows` for data-parallel rank d.
  Result<UpdateResult> Update(std::span<const Row> rows,
                              const std::vector<std::vector<size_t>>& shares, const Loss& loss,
                              double lr);

  // Of the tensor-parallel ranks of data-parallel rank 0; valid until the next Update or Restore.
  std::vector<RankMemory> weights();
  OptimizerMemory optimizer();
  // Weights and optimizer state from a checkpoint, into all data-parallel ranks.
  Status Restore(const std::string& tag_folder, const ops::RunOptions& run);

  const ActorOptions& options() const;

 private:
  struct State;
  explicit Actor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nxdkit::trainer
