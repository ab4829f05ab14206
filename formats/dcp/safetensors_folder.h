// PRIVATE: what torch's HuggingFaceStorageWriter writes: safetensors files of chunks, each saying
// where its chunks begin (DCP_SHARDING_INFO). Nothing says how large the whole tensors are.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/dcp/folder.h"
#include "lib/system/looker.h"

namespace nxdkit::dcp {

// Whether the first safetensors file among these names in the folder says where it belongs.
Result<bool> HasShards(const std::string& path, const std::vector<std::string>& names);

Result<Folder> OpenShards(const std::string& path, const Looker& look);

// How they are written: the file of a rank's chunks, "shard-00001-model-00001-of-00001.safetensors"
// of rank 0, and its __metadata__: where each tensor begins, by name.
std::string ShardFileName(int rank);
std::map<std::string, std::string> ShardMetadata(
    const std::vector<std::pair<std::string, Shape>>& begins);

}  // namespace nxdkit::dcp
