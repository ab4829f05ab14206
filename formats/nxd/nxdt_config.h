// PRIVATE: the YAML configurations of NxD Training (examples/conf/*.yaml of
// neuronx-distributed-training), as far as they say how a checkpoint is laid out.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/nxd/detect.h"

namespace nxdkit::nxd {

struct NxdtConfig {
  LayoutOptions layout;
  std::optional<bool> xser;  // exp_manager.save_xser
  std::string model_config;  // path of a config.json, as it is written there; "" for none
  // What a step takes of memory; 1 and false where the key is absent, 0 tokens.
  int micro_batch = 1, sequence = 0, context_parallel = 1;
  bool zero1 = false;
  bool bf16_states = false;  // precision.type bf16SR
  bool recompute = false;    // of whole layers
};

// A key that is absent has the default of NxD Training: 1, False. kCorrupt for what is not YAML;
// kUsage, with line and column, where a key of the layout is not a number, or an expression
// (${...}) that only OmegaConf can work out; kUnsupported for `model_source` of no known style.
Result<NxdtConfig> ParseNxdtConfig(std::string_view text, const std::string& path);
Result<NxdtConfig> ReadNxdtConfig(const std::string& path);

}  // namespace nxdkit::nxd
