// PRIVATE: folders of torch_checkpointing, in which every rank saved its part of each item as it
// was: model_0.pt, model_1.pt, ..., and metadata.pkl where the parts can be put together again.
#pragma once

#include <string>

#include "formats/dcp/folder.h"
#include "lib/system/looker.h"

namespace nxdkit::dcp {

// Whether there are files with torch_checkpointing's names: "<item>_0.pt".
Result<bool> HasRankFiles(const std::string& path, const Looker& look);

Result<Folder> OpenRankFolder(const std::string& path, const Looker& look);

}  // namespace nxdkit::dcp
