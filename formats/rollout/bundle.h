// The folder of a rollout bundle: neuron_config.json, the compiled blob, the rank shards.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/rollout/neuron_config.h"
#include "formats/rollout/weights_version.h"
#include "lib/base/choice.h"
#include "lib/system/folder_lock.h"
#include "lib/system/looker.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::rollout {

// Opens one safetensors file; passed in by the caller, because one format's folder does not include
// another's.
using OpenTensorFile = std::function<Result<TensorFile>(const std::string& path)>;

struct Bundle {
  std::string folder;
  std::optional<NeuronConfig> config;  // nullopt: a bare folder of rank shards
  std::string config_text;
  std::string weights_link;    // .../weights, as engines open it
  std::string weights_folder;  // its target; "" when the bundle has no shards
  std::string lost_slot;       // the newest slot, if no link leads to one; else ""
  bool half_done = false;      // PinnedWeights::half_done
  std::optional<WeightsVersion> version;
  std::shared_ptr<const FolderLock> lock;  // shards are not overwritten while it lives
  std::vector<TensorFile> shards;          // index = rank - first rank
  int64_t first_rank = 0;
  std::vector<std::string> blobs;  // model.pt, model_<bundle>.pt: file names
  bool has_cpu_plan = false;       // nxdkit-cpu-plan.json, which replaces a blob on the CPU
  std::vector<std::string> warnings;
  std::optional<Choice> choice;  // when several places have weights
};

// Whether the folder (or its checkpoint/) looks like a bundle: by names only.
Result<bool> LooksLikeBundle(const std::string& path, const Looker& look = {});

// Reads configuration and shard headers. Shards are looked for in checkpoint/weights, weights and
// the folder itself, in this order. Ranks must be first_rank, first_rank + 1, ... without holes,
// and those of the configuration (0 without one); kCorrupt naming the missing file. Shards may be
// absent: such a bundle loads its weights from a Hugging Face checkpoint. `weights` names the
// folder of shards to open instead of the bundle's own, unlocked: a slot that is not published yet.
Result<Bundle> OpenBundle(const std::string& path, const OpenTensorFile& open,
                          const std::string& weights = "", const Looker& look = {});

// Completes what a killed refresh of the bundle's weights left (adoption.h: Repair), so that it can
// be opened. Returns what was done, for a message; "" if there was nothing to do.
Result<std::string> RepairBundle(const std::string& path, bool sync);

// The folder of a flavor's shards, relative to the bundle: "weights", "checkpoint/weights".
std::string WeightsFolder(Flavor flavor);

}  // namespace nxdkit::rollout
