// New weights for the rollout engine, in four runs over them and one read of the bundle: the
// actor's memory is hashed as the bundle will hold it, and written into the bundle's other slot,
// which one rename makes current; the engine loads it (Generator::Reload), hashes what it has in
// memory then, and both hashes must be the same.
#pragma once

#include <string>

#include "formats/ops/convert/convert.h"
#include "trainer/learner/mesh_model.h"
#include "trainer/model/decoder_config.h"

namespace nxdkit::trainer {

struct SyncedWeights {
  rollout::WeightsVersion version;
  std::string digest;  // "sha256:..." of the model in the bundle's dtype: what an engine must load
};

// Hashes the memory and refreshes the weights of `bundle`. The files are not read back: what an
// engine loads of them is held against the digest, after the new slot is current. Copies and
// padding that the engine does not read are not proved by that; `ckpt-verify` looks at them.
// kCorrupt when the ranks' copies differ.
Result<SyncedWeights> SyncWeights(MeshModel& actor, const DecoderConfig& config,
                                  const ops::Artifact& base, const std::string& bundle,
                                  const std::string& label, const ops::RunOptions& run);

}  // namespace nxdkit::trainer
