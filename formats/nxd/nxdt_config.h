// PRIVATE: the YAML configurations of NxD Training (examples/conf/*.yaml of
// neuronx-distributed-training), as far as they describe a checkpoint's layout.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/nxd/detect.h"

namespace nxdkit::nxd {

struct NxdtConfig {
  LayoutOptions layout;  // no qkv: see below; no hardware where the file does not show it
  // The form in which NxD Training's module stores q, k and v. It depends on the model too:
  // kCoalesced is for a model with a key head for each query head, and becomes kSeparate for
  // others. Absent where the module has only one form (Megatron).
  std::optional<QkvStyle> qkv;
  std::optional<bool> xser;  // exp_manager.save_xser
  std::string model_config;  // path of a config.json, as written in the file; "" for none
  // The settings that determine a step's memory; 1 and false where the key is absent, 0 tokens.
  int micro_batch = 1, sequence = 0, context_parallel = 1;
  bool zero1 = false;
  bool bf16_states = false;        // precision.type bf16SR
  bool recompute = false;          // of whole layers
  std::vector<std::string> notes;  // keys that NxD Training ignores because of others
};

// An absent key has the default of NxD Training: 1, False, but True for fuse_qkv. ${...} with keys
// of the same file is evaluated. kCorrupt for invalid YAML; kUsage, with line and column, where a
// key of the layout is not a number, or is an expression that only OmegaConf can evaluate;
// kUnsupported for a `model_source` of unknown style.
Result<NxdtConfig> ParseNxdtConfig(std::string_view text, const std::string& path);
Result<NxdtConfig> ReadNxdtConfig(const std::string& path);

}  // namespace nxdkit::nxd
