// Finds the configuration of a LoRA adapter: a file next to it, or a dictionary in its archive.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/words.h"
#include "formats/lora/config.h"
#include "formats/torch/pickle_value.h"

namespace nxdkit::adapter {

inline constexpr char kLoraConfigFile[] = "adapter_config.json";
inline constexpr char kLoraConfigKey[] = "lora_config";  // in the state dict of NxD's shards

struct LoraConfigFile {
  lora::Config config;
  std::string path;
};

// The dictionary in the torch archive `archive` ("": none), else adapter_config.json of the first
// of `folders` that has one. kNotFound naming the folders.
Result<LoraConfigFile> FindLoraConfig(const std::string& archive,
                                      const std::vector<std::string>& folders);

// A configuration in JSON as the dictionary that torch.save writes.
torch::PickleValue PickleOfJson(const std::string& text);

}  // namespace nxdkit::adapter
