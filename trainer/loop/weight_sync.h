// New weights for the rollout engine, in four runs over them and one read of what was written: the
// actor's memory is hashed as the engine will hold it, and written where the engine does not read;
// the engine loads it (Generator::Reload), hashes what it has in memory then, and both hashes must
// be the same.
//
// Written is the other slot of a rollout bundle, which one rename makes current, or, for engines of
// other programs that read Hugging Face folders, one of two such folders in turn.
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
  std::string folder{};        // where their two slots lie
  Dtype dtype = Dtype::kBF16;  // of a folder; a bundle says its own
  // The engine's parameters are predicted as vLLM, or vLLM Neuron, lays them out.
  std::optional<ops::EngineGeometry> engine{};
  TextFiles text{};  // that go with a folder
  // Sends what is written to machines that do not see it; nullptr: all do.
  std::shared_ptr<Deliveries> elsewhere{};
};

struct SyncedWeights {
  rollout::WeightsVersion version;  // of a folder: the number of its sync in this run
  std::string path;                 // the bundle, or the folder of these weights
  // "sha256:..." of the model in the engine's dtype: what our own engine must load.
  std::string digest;
  ops::KeyedDigests parameters;           // of SyncTarget::engine
  std::map<std::string, double> seconds;  // by part: "digest", "write", "send"
};

// Hashes the memory and writes. `number`: of this sync, one after the other. The files are not read
// back: what an engine loads of them is held against the digests. Copies and padding that the
// engine does not read are not proved by that; `ckpt-verify` looks at them. kCorrupt when the
// ranks' copies differ.
Result<SyncedWeights> SyncWeights(MeshModel& actor, const DecoderConfig& config,
                                  const artifact::Artifact& base, const SyncTarget& target,
                                  const std::string& label, int64_t number,
                                  const artifact::RunOptions& run);

}  // namespace nxdkit::trainer
