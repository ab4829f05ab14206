// New weights for the rollout engine, in four runs over them and one read of what was written: the
// actor's memory is hashed as the engine will hold it, and written where the engine does not read;
// the engine loads it (Generator::Reload) and hashes its own memory, and both hashes must be equal.
//
// The output is the other slot of a rollout bundle, which one rename makes current, or, for engines
// of other programs that read Hugging Face folders, one of two such folders in turn.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "formats/ops/convert/convert.h"
#include "formats/ops/digest/engine_check.h"
#include "trainer/learner/mesh_model.h"
#include "trainer/loop/text_files.h"
#include "trainer/model/decoder_config.h"

namespace nxdkit::trainer {

class Deliveries;

struct SyncTarget {
  std::string bundle{};        // a rollout bundle; "": Hugging Face folders are written
  std::string folder{};        // the folder of their two slots
  Dtype dtype = Dtype::kBF16;  // of a folder; a bundle records its own
  // Set if the engine's parameters are predicted in the layout of vLLM or vLLM Neuron.
  std::optional<ops::EngineGeometry> engine{};
  TextFiles text{};  // that accompany a folder
  // Sends the output to machines that do not see it; nullptr: all do.
  std::shared_ptr<Deliveries> elsewhere{};
};

struct SyncedWeights {
  rollout::WeightsVersion version;  // of a folder: the number of its sync in this run
  std::string path;                 // the bundle, or the folder of these weights
  // "sha256:..." of the model in the engine's dtype, which our own engine must load.
  std::string digest;
  ops::KeyedDigests parameters;           // as SyncTarget::engine lays them out
  std::map<std::string, double> seconds;  // by part: "digest", "write", "send"
};

// Hashes the memory and writes the weights. `number`: the consecutive number of this sync. The
// files are not read back: the weights that an engine loads from them are compared with the
// digests. That does not prove copies and padding which the engine does not read; `ckpt-verify`
// checks them. kCorrupt when the ranks' copies differ.
Result<SyncedWeights> SyncWeights(MeshModel& actor, const DecoderConfig& config,
                                  const artifact::Artifact& base, const SyncTarget& target,
                                  const std::string& label, int64_t number,
                                  const artifact::RunOptions& run);

}  // namespace nxdkit::trainer
