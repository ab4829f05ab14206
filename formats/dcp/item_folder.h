// PRIVATE: folders whose tensors and objects are items, each a torch archive inside a file, as the
// metadata says: one .metadata of all, or one of every rank.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/dcp/folder.h"
#include "formats/torch/archive.h"
#include "lib/system/looker.h"

namespace nxdkit::dcp {

// With .metadata.
Result<Folder> OpenCheckpoint(const std::string& path);
// With __0.metadata, __1.metadata, ...: saved without collectives, every rank by itself.
Result<Folder> OpenRankLocal(const std::string& path, const Looker& look);

// The rank whose metadata the file is, from its name "__3.metadata".
std::optional<int64_t> RankOfMetadata(std::string_view name);

// The bytes of an object's archive, which lies in a file of the folder.
Result<std::string> ReadItem(const Folder& folder, const ObjectEntry& entry);
Result<torch::Archive> ReadItemArchive(
    const Folder& folder, const ObjectEntry& entry,
    torch::ReadOptions::Allowed allowed = torch::ReadOptions::Allowed::kPlain);

}  // namespace nxdkit::dcp
