// PRIVATE: the output of torch's HuggingFaceStorageWriter: safetensors files of chunks, each
// recording where its chunks begin (DCP_SHARDING_INFO). The shapes of the whole tensors are not
// recorded.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/dcp/folder.h"
#include "lib/system/looker.h"

namespace nxdkit::dcp {

// Whether the first safetensors file among these names in the folder records its offsets.
Result<bool> HasShards(const std::string& path, const std::vector<std::string>& names);

Result<Folder> OpenShards(const std::string& path, const Looker& look);

// Names and metadata for writing: the file of a rank's chunks, for rank 0
// "shard-00001-model-00001-of-00001.safetensors", and its __metadata__: where each tensor begins,
// by name.
std::string ShardFileName(int rank);
std::map<std::string, std::string> ShardMetadata(
    const std::vector<std::pair<std::string, Shape>>& begins);

}  // namespace nxdkit::dcp
