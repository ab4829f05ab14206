// A model on a TP x DP mesh of threads: its outputs for sampled rows, updates, and its state as
// memory from which checkpoints and rollout bundles are made. The output for a token is its
// log-probability (an actor or, frozen, the reference policy), or its score in a model that has one
// (a critic: the expected value of the response from the token on). Both are read at the position
// that predicts the token: a value does not depend on the token chosen there.
//
// Every data-parallel rank holds all weights of its tensor-parallel ranks and sees its own rows.
// Gradients are summed over the data-parallel ranks in rank order, once per update; the optimizer's
// state is cut over them (ZeRO-1), each rank updates its range of the weights, and all ranks
// receive it.
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

// The time at which gradients are summed over the data-parallel ranks.
enum class Overlap {
  kNever,          // after the backward pass
  kOverProcesses,  // during it, if the ranks are in several processes; within one process
                   // threads would take the cores from it
  kAlways,
};

struct MeshOptions {
  int tp = 1;
  int dp = 1;
  DecoderOptions decoder;
  float temperature = 1;  // divisor of the logits
  double max_grad_norm = 1;
  struct MicroBatch {
    int64_t max_tokens = 0;
    int64_t max_rows = 0;  // 0: limited by max_tokens (rows.h)
  };
  MicroBatch update{};         // forward and backward
  MicroBatch experience{};     // forward alone
  OptimizerOptions optimizer;  // for a trainable decoder
  Overlap overlap = Overlap::kOverProcesses;
  int64_t least_bucket = 0;  // least elements to sum at once: gradient_reducer.h
  // The transport of a mesh over several processes, which all make the same calls with the same
  // rows. nullptr: all ranks are in this process.
  Transport* transport = nullptr;
  // The number of ranks of each process, in the order of the mesh: at least one for process 0,
  // perhaps none for the last ones. Empty: equal shares.
  std::vector<int> ranks_of_process;
  // The calls come from the training loop in process 0, which announces them (followers.h): this
  // mesh has a leader, and knows the artifact that the model was opened from. Losses are computed
  // in process 0.
  bool led = false;
  class Leader* leader = nullptr;
  struct Origin {
    std::string path;
    bool critic = false;
    uint64_t seed = 0;  // for parameters that a critic lacks
  };
  Origin origin{};
};

// The result of one update.
struct UpdateResult {
  double grad_norm = 0;  // before clipping
  bool skipped = false;  // the norm was not finite: nothing was changed
};

// One number for each token of each row's response, in the order of the rows.
using RowValues = std::vector<std::vector<float>>;
struct RowOutputs {
  RowValues outputs;    // log-probabilities or scores
  RowValues entropies;  // of the full distributions; empty for a model with a score
};

class MeshModel {
 public:
  // Loads the weights from `source`, an opened artifact of the same model. `config` must outlive
  // the model. kLimit when there is too little memory.
  static Result<std::unique_ptr<MeshModel>> Make(const DecoderConfig& config,
                                                 const MeshOptions& options,
                                                 const artifact::BoundArtifact& source);
  ~MeshModel();

  // Evaluates all rows, cut into dp contiguous shares: their number must be a multiple of dp.
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

  // The weights of the tensor-parallel ranks of data-parallel rank 0; in a mesh over processes,
  // those of other processes are read from there. Valid until the next Update or Restore.
  std::vector<RankMemory> weights();
  OptimizerMemory optimizer();
  // Restores weights and optimizer state from a checkpoint, in all data-parallel ranks.
  Status Restore(const std::string& tag_folder, const artifact::RunOptions& run);

  // Writes the state as a tag. `base` as in BindTraining. `together`: all processes see the folder,
  // and each writes a share of the files; otherwise this process reads the others' memory and
  // writes all. The files are the same either way. A write together cannot be stopped: poll is not
  // called.
  Status WriteTag(const artifact::Artifact& base, const TagRequest& request, bool together);
  // PRIVATE to followers: the share of this process.
  Status WriteShare(const artifact::Artifact& base, const TagRequest& request);

  // The processes other than the first that hold ranks.
  std::vector<int> OthersWithRanks() const;

  // PRIVATE to followers. An array of one rank of this process (0: the weights, then the entries of
  // the optimizer, then its masters) and one of its parts. `offset`: bytes from the beginning of
  // the part.
  struct ArrayName {
    int rank = 0;  // of the mesh
    int array = 0;
    int part = 0;
  };
  Status ReadOwn(const ArrayName& name, uint64_t offset, std::span<std::byte> to);
  // The data-parallel ranks whose first rank is in the process.
  std::vector<int> LedDataParallelRanks(int process) const;

  const MeshOptions& options() const;
  const DecoderConfig& config() const;

 private:
  struct State;
  explicit MeshModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nxdkit::trainer
