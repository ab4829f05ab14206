// The models of a run: what it begins with, and what it trains.
#pragma once

#include <memory>

#include "formats/artifact/bound.h"
#include "trainer/learner/critic_model.h"
#include "trainer/learner/mesh_model.h"
#include "trainer/model/decoder_config.h"

namespace nxdkit::trainer {

struct RunModels {
  std::unique_ptr<const DecoderConfig> config;
  artifact::BoundArtifact base;  // the model that the run begins with
  std::unique_ptr<MeshModel> actor;
  std::unique_ptr<MeshModel> reference;  // nullptr: no KL
  // The model that the critic begins with, and the critic; nullptr: the advantages need none.
  std::unique_ptr<const CriticModel> critic_model;
  std::unique_ptr<MeshModel> critic;
};

}  // namespace nxdkit::trainer
