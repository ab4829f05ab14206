// The model that a critic begins with: that of a model folder, with one score of each token in
// place of its lm_head, as transformers' ...ForTokenClassification with one label.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "trainer/model/decoder_config.h"

namespace nxdkit::trainer {

struct CriticModel {
  // With the configuration of the critic, which has no file, and its parameters.
  artifact::BoundArtifact source;
  DecoderConfig config;
  std::vector<std::string> notes;  // what was left out and what was made, for people
};

// `opened`: a language model, whose lm_head is left out, or a model with one score. What the score
// lacks is made: weights are drawn from a normal distribution of the config's initializer_range
// (0.02), the same for the same seed; the bias is 0. kUnsupported for deltas and merged adapters,
// and as ParseDecoderConfig.
Result<CriticModel> MakeCriticModel(artifact::BoundArtifact opened, uint64_t seed);

}  // namespace nxdkit::trainer
