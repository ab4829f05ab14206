// PRIVATE: folders whose tensors and objects are items, each a torch archive inside a file, as
// listed by one .metadata for all ranks or one for each.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/dcp/folder.h"
#include "formats/torch/archive.h"
#include "lib/system/looker.h"

namespace nxdkit::dcp {

// Opens a folder with .metadata.
Result<Folder> OpenCheckpoint(const std::string& path);
// Opens a folder with __0.metadata, __1.metadata, ...: saved without collectives, each rank by
// itself.
Result<Folder> OpenRankLocal(const std::string& path, const Looker& look);

// The rank in a metadata file's name, "__3.metadata".
std::optional<int64_t> RankOfMetadata(std::string_view name);

// The bytes of an object's archive, in a file of the folder.
Result<std::string> ReadItem(const Folder& folder, const ObjectEntry& entry);
Result<torch::Archive> ReadItemArchive(
    const Folder& folder, const ObjectEntry& entry,
    torch::ReadOptions::Allowed allowed = torch::ReadOptions::Allowed::kPlain);

}  // namespace nxdkit::dcp
