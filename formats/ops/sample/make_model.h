// A Hugging Face folder with a real model's shapes and generated weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "formats/artifact/run.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::ops {

struct MakeModelRequest {
  std::string family;                 // "llama", "qwen2", "qwen3"
  std::string size;                   // "tiny", "0.6b", "1.7b", "4b", "8b"
  std::optional<std::string> config;  // a config.json instead of family and size
  std::string output;
  Dtype dtype = Dtype::kBF16;
  uint64_t seed = 1;
  std::optional<std::string> max_shard_size;
  bool force = false;
  RunOptions run;
};

// Writes the folder; returns the bytes of its weights.
Result<uint64_t> MakeModel(const MakeModelRequest& request);

}  // namespace nxdkit::ops
