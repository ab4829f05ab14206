// A training state in memory as an artifact of the toolchain, as nxd-convert would have opened it.
// An NxD tag with ZeRO-1 optimizer files, a Hugging Face folder, a refreshed rollout bundle and a
// digest are made from it by the same code as from files; and it can be filled from a tag.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "trainer/model/memory.h"

namespace nxdkit::trainer {

// One state of the optimizer for every parameter, on all tensor-parallel ranks.
struct OptimizerMemory {
  struct Entry {
    std::string name;  // "exp_avg"
    std::vector<RankMemory> ranks;
  };
  std::vector<Entry> entries;
  std::vector<RankMemory> masters;  // empty: none
  int64_t step = 0;                 // updates so far
  // param_groups, for readers of the tag.
  double lr = 0;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
};

// `base` is the opened model with which training began: its configuration and tokenizer accompany
// every output, its weights do not. The arrays must live, unchanged, as long as the result does.
artifact::BoundArtifact BindTraining(const artifact::Artifact& base, const models::Model& model,
                                     const std::vector<RankMemory>& weights,
                                     const OptimizerMemory* optimizer);

// Fills all arrays and `step` of `optimizer` from a tag, or from another trainer's checkpoint with
// optimizer state; it may have been cut for other numbers of ranks. kCorrupt when it lacks
// something or keeps it in another dtype, and when a record of its files is damaged (by its
// CRC-32): then nothing has been filled.
Status LoadTraining(const std::string& folder, const models::Model& model,
                    const std::vector<RankMemory>& weights, OptimizerMemory& optimizer,
                    const artifact::RunOptions& run);

// The options of MeshModel::WriteTag.
struct TagRequest {
  std::string folder;
  double lr = 0;            // for the optimizer's groups
  bool model_only = false;  // without the optimizer
  int jobs = 1;
  std::function<Status()> poll = nullptr;
};

}  // namespace nxdkit::trainer
