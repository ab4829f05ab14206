// The initial model of a critic: the model of a folder, with one score per token in place of its
// lm_head, like transformers' ...ForTokenClassification with one label.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "trainer/model/decoder_config.h"

namespace nxdkit::trainer {

struct CriticModel {
  // Has the configuration of the critic, which has no file, and its parameters.
  artifact::BoundArtifact source;
  DecoderConfig config;
  std::vector<std::string> notes;  // dropped and created parameters, for people
};

// `opened`: a language model, whose lm_head is left out, or a model with one score. Missing
// parameters of the score are created: weights are drawn from a normal distribution with the
// config's initializer_range (0.02), the same for the same seed; the bias is 0. kUnsupported for
// deltas and merged adapters, and as ParseDecoderConfig.
Result<CriticModel> MakeCriticModel(artifact::BoundArtifact opened, uint64_t seed);

}  // namespace nxdkit::trainer
