// The critic under training: what it expects of a response from each of its tokens on. An output of
// an update is such a value. The value at a token is read where the token is predicted, as its
// log-probability is: it does not depend on what was chosen there.
#pragma once

#include <memory>
#include <span>

#include "trainer/learner/mesh_model.h"

namespace nxdkit::trainer {

class Critic : public MeshModel {
 public:
  // As MeshModel::Start, of a model with one score: trainer/learner/critic_model.h.
  static Result<std::unique_ptr<Critic>> Make(const DecoderConfig& config,
                                              const MeshOptions& options,
                                              const ops::BoundArtifact& source);
  // As MeshModel::Evaluate.
  Result<RowValues> Values(std::span<const Row> rows);

 private:
  Critic() = default;
};

}  // namespace nxdkit::trainer
