// The distribution of a model over shards when written: their sizes, names and index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::hf {

// The exact split rule of huggingface_hub (specs: greedy, one open shard, input order; a tensor
// over the limit gets a shard of its own at once). Returns for each shard the indices of its
// tensors.
std::vector<std::vector<size_t>> SplitShards(const std::vector<uint64_t>& bytes, uint64_t limit);

// "model.safetensors" for one shard, else "model-00001-of-00003.safetensors". `index` from 0.
std::string ShardName(size_t index, size_t count);

// Contents of model.safetensors.index.json: indent 2, sorted keys, trailing newline.
// `weight_map` pairs are tensor -> file name.
std::string IndexJson(const std::vector<std::pair<std::string, std::string>>& weight_map,
                      uint64_t total_bytes, uint64_t total_parameters);

// Parses "5GB", "500MB", "1.5 gb", "1000000" (decimal units KB MB GB TB); kUsage otherwise.
Result<uint64_t> ParseShardSize(const std::string& text);

}  // namespace nxdkit::hf
