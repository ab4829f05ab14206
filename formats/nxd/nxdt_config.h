// PRIVATE: the YAML configurations of NxD Training (examples/conf/*.yaml of
// neuronx-distributed-training), as far as they say how a checkpoint is laid out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/nxd/detect.h"

namespace nxdkit::nxd {

struct NxdtConfig {
  LayoutOptions layout;  // no qkv: see below; no hardware where the file does not tell
  // The way that NxD Training's module stores q, k and v. It follows from the model too: what is
  // kCoalesced of a model with a key head for each query head is kSeparate of others. Absent where
  // the module has one way (Megatron).
  std::optional<QkvStyle> qkv;
  std::optional<bool> xser;  // exp_manager.save_xser
  std::string model_config;  // path of a config.json, as it is written there; "" for none
  // What a step takes of memory; 1 and false where the key is absent, 0 tokens.
  int micro_batch = 1, sequence = 0, context_parallel = 1;
  bool zero1 = false;
  bool bf16_states = false;        // precision.type bf16SR
  bool recompute = false;          // of whole layers
  std::vector<std::string> notes;  // keys that NxD Training does not look at beside the others
};

// A key that is absent has the default of NxD Training: 1, False, but fuse_qkv True. ${...} of keys
// of the same file are worked out. kCorrupt for what is not YAML; kUsage, with line and column,
// where a key of the layout is not a number, or an expression that only OmegaConf can work out;
// kUnsupported for `model_source` of no known style.
Result<NxdtConfig> ParseNxdtConfig(std::string_view text, const std::string& path);
Result<NxdtConfig> ReadNxdtConfig(const std::string& path);

}  // namespace nxdkit::nxd
