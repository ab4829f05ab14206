// The policy under training: log-probabilities of sampled rows; an output of an update is the
// log-probability of a token. Also, frozen, the reference policy.
#pragma once

#include <memory>
#include <span>

#include "trainer/learner/mesh_model.h"

namespace nxdkit::trainer {

struct ActorOptions : MeshOptions {
  float temperature = 1;
};

struct RowLogProbs {
  RowValues log_probs;
  RowValues entropies;
};

class Actor : public MeshModel {
 public:
  // As MeshModel::Start, of a model with an lm_head.
  static Result<std::unique_ptr<Actor>> Make(const DecoderConfig& config,
                                             const ActorOptions& options,
                                             const ops::BoundArtifact& source);
  // As MeshModel::Evaluate.
  Result<RowLogProbs> LogProbs(std::span<const Row> rows);

 private:
  Actor() = default;
};

}  // namespace nxdkit::trainer
