// New weights for the rollout engine: the actor's memory into the bundle's other slot, one rename,
// and the proof of what lies there.
#pragma once

#include <string>

#include "formats/ops/convert/convert.h"
#include "trainer/learner/actor.h"
#include "trainer/model/decoder_config.h"

namespace nxdkit::trainer {

struct SyncedWeights {
  rollout::WeightsVersion version;
  std::string digest;  // "sha256:..." of the model in the bundle's dtype: what an engine must load
};

// Refreshes the weights of `bundle`, reads them back and compares them with the memory. kFindings
// when they differ.
Result<SyncedWeights> SyncWeights(Actor& actor, const DecoderConfig& config,
                                  const ops::Artifact& base, const std::string& bundle,
                                  const std::string& label, const ops::RunOptions& run);

}  // namespace nxdkit::trainer
