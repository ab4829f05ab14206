// A model on a TP x DP mesh of threads: what it says of sampled rows, updates, and its state as
// memory that checkpoints and rollout bundles are made from. What it says of a token is its
// log-probability (an actor, and frozen the reference policy), or of a model with one score that
// score (a critic: what it expects of the response from the token on). Either is read where the
// token is predicted: a value does not depend on what was chosen there.
//
// Every data-parallel rank holds all weights of its tensor-parallel ranks and sees its own rows.
// Gradients are summed over the data-parallel ranks in rank order, once per update; the optimizer's
// state is cut over them (ZeRO-1), each rank updates its range of the weights, and all take it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "trainer/comm/comm.h"
#include "trainer/learner/rank_optimizer.h"
#include "trainer/learner/rows.h"
#include "trainer/learner/training_tag.h"

namespace nxdkit::trainer {

// When gradients are summed over the data-parallel ranks.
enum class Overlap {
  kNever,          // after the backward pass
  kOverProcesses,  // while it runs, where the ranks are in several processes; threads would take
                   // the cores from it
  kAlways,
};

struct MeshOptions {
  int tp = 1;
  int dp = 1;
  DecoderOptions decoder;
  float temperature = 1;  // that logits are divided by
  double max_grad_norm = 1;
  struct MicroBatch {
    int64_t max_tokens = 0;
    int64_t max_rows = 0;  // 0: as max_tokens allows (rows.h)
  };
  MicroBatch update{};         // forward and backward
  MicroBatch experience{};     // forward alone
  OptimizerOptions optimizer;  // of a trainable decoder
  Overlap overlap = Overlap::kOverProcesses;
  int64_t least_bucket = 0;  // elements that are summed at once: gradient_reducer.h
  // Of a mesh over several processes, which all make the same calls with the same rows. nullptr:
  // all ranks are in this process.
  Transport* transport = nullptr;
  // How many ranks each of them has, in the order of the mesh: some for process 0, perhaps none for
  // the last ones. Empty: equal shares.
  std::vector<int> ranks_of_process;
  // The calls come from the training loop in process 0, which makes them known (followers.h): it
  // has a leader and says what the model was opened from. Losses are computed there.
  bool led = false;
  class Leader* leader = nullptr;
  struct Origin {
    std::string path;
    bool critic = false;
    uint64_t seed = 0;  // of what a critic lacks
  };
  Origin origin{};
};

// How one update went.
struct UpdateResult {
  double grad_norm = 0;  // before clipping
  bool skipped = false;  // the norm was not finite: nothing was changed
};

// One number for each token of each row's response, in the order of the rows.
using RowValues = std::vector<std::vector<float>>;
struct RowOutputs {
  RowValues outputs;    // log-probabilities or scores
  RowValues entropies;  // of the whole distributions; empty for a model with a score
};

class MeshModel {
 public:
  // The weights come from `source`, an opened artifact of the same model. `config` must outlive the
  // model. kLimit when memory is short.
  static Result<std::unique_ptr<MeshModel>> Make(const DecoderConfig& config,
                                                 const MeshOptions& options,
                                                 const artifact::BoundArtifact& source);
  ~MeshModel();

  // Of all rows, which are cut into dp contiguous shares: their number must be a multiple of dp.
  Result<RowOutputs> Evaluate(std::span<const Row> rows);

  // The gradient of the loss by each output of a micro-batch: `rows` names its rows, in order,
  // outputs and gradient hold the tokens of their responses one after another. Called on all
  // ranks; those with `record` false must get the same gradient and count nothing. Calls with
  // `record` come one at a time per `dp_rank`, from different threads for different ones.
  using Loss = std::function<Status(int dp_rank, bool record, std::span<const size_t> rows,
                                    std::span<const float> outputs, std::span<float> gradient)>;
  // One optimizer step on shares[d] of `rows` for data-parallel rank d.
  Result<UpdateResult> Update(std::span<const Row> rows,
                              const std::vector<std::vector<size_t>>& shares, const Loss& loss,
                              double lr);

  // Of the tensor-parallel ranks of data-parallel rank 0; of a mesh over processes, what others
  // hold is read from them. Valid until the next Update or Restore.
  std::vector<RankMemory> weights();
  OptimizerMemory optimizer();
  // Weights and optimizer state from a checkpoint, into all data-parallel ranks.
  Status Restore(const std::string& tag_folder, const artifact::RunOptions& run);

  // The state as a tag. `base` as in BindTraining. `together`: the folder's place is one that all
  // processes see, and each writes a share of the files; else this process reads what others hold,
  // and writes all. The same files either way. Together it cannot be stopped: poll is not asked.
  Status WriteTag(const artifact::Artifact& base, const TagRequest& request, bool together);
  // PRIVATE to followers: the share of this process.
  Status WriteShare(const artifact::Artifact& base, const TagRequest& request);

  // The processes beside the first one that hold some of it.
  std::vector<int> OthersWithRanks() const;

  // PRIVATE to followers. An array of one rank of this process: 0 are the weights, then the entries
  // of the optimizer, then its masters; and which of its parts. `offset` in bytes, in the part.
  struct ArrayName {
    int rank = 0;  // of the mesh
    int array = 0;
    int part = 0;
  };
  Status ReadOwn(const ArrayName& name, uint64_t offset, std::span<std::byte> to);
  // Of the data-parallel ranks those whose first rank is in the process.
  std::vector<int> LedDataParallelRanks(int process) const;

  const MeshOptions& options() const;
  const DecoderConfig& config() const;

 private:
  struct State;
  explicit MeshModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nxdkit::trainer
