// PRIVATE: what torch's HuggingFaceStorageWriter writes: safetensors files of chunks, each saying
// where its chunks begin (DCP_SHARDING_INFO). Nothing says how large the whole tensors are.
#pragma once

#include <string>
#include <vector>

#include "formats/dcp/folder.h"
#include "lib/system/looker.h"

namespace nxdkit::dcp {

// Whether the first safetensors file among these names in the folder says where it belongs.
Result<bool> HasShards(const std::string& path, const std::vector<std::string>& names);

Result<Folder> OpenShards(const std::string& path, const Looker& look);

}  // namespace nxdkit::dcp
