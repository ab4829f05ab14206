// neuron_config.json of a rollout bundle, in both dialects. Facts: FORMAT.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/rollout/rollout_layout.h"
#include "lib/base/error.h"

namespace nxdkit::rollout {

inline constexpr int64_t kMaxRanks = 4096;

// The versions that optimum-neuron compares with its own when it loads a bundle: both must be equal
// to the last character. Empty: not in the file, and optimum-neuron refuses it.
struct VersionStamp {
  std::string optimum;   // optimum_neuron_version: "0.4.6.dev4"
  std::string compiler;  // neuronxcc_version: "2.21.33363.0+82129205"
  bool operator==(const VersionStamp&) const = default;
};
// The versions in the dialect that we write.
inline constexpr char kOptimumVersion[] = "0.4.6.dev4";
inline constexpr char kCompilerVersion[] = "2.21.33363.0+82129205";

// The layout of the bundle, and the other settings in its file.
struct NeuronConfig : Geometry {
  int64_t start_rank = 0;
  int64_t local_ranks = 1;
  int64_t batch_size = 1;
  int64_t sequence_length = 128;
  std::string torch_dtype = "bfloat16";
  bool sharded_checkpoint = true;  // NxDI: save_sharded_checkpoint; optimum always looks for shards
  std::string checkpoint_id;       // optimum: the source of the weights
  bool on_device_sampling = true;  // the graph returns tokens, not logits
  VersionStamp stamp;              // optimum
  // Settings that change the shards in a way that we cannot lay out: "quantized: true".
  std::vector<std::string> unsupported;
  // The recorded versions and targets of the programs that made the bundle, if any:
  // "neuronxcc_version", "2.21.33363.0+82129205".
  std::vector<std::pair<std::string, std::string>> versions;
};

// The dialect follows from the keys: an object "neuron_config" (NxDI), "_serialized_key" (optimum).
// Bare Infinity and NaN are accepted. kCorrupt naming the key, found and expected.
Result<NeuronConfig> ParseNeuronConfig(std::string_view json_text, const std::string& path);

// The file for a bundle without a compiled blob to copy it from: sorted keys, indent 2, trailing
// newline. `hf_config_text` is config.json, merged into NxDI's dialect; may be empty. kUnsupported
// when the dialect has no key for a setting.
Result<std::string> WriteNeuronConfig(const NeuronConfig& config, std::string_view hf_config_text);

}  // namespace nxdkit::rollout
