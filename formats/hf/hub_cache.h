// What `hf download` has put into the hub's cache: models and data sets by their names.
//
//   ROOT/models--ORG--NAME/refs/main            the commit, as text
//   ROOT/models--ORG--NAME/snapshots/COMMIT/... links to ../../blobs/ETAG
//   ROOT/models--ORG--NAME/blobs/*.incomplete   what is not here whole
// Source: huggingface_hub, "Hub local cache", written for those who implement it again.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::hf {

enum class HubKind { kModel, kDataset };

// "ORG/NAME", as the hub allows names, or "ORG/NAME@REVISION", and nothing of this name lies here.
bool IsHubName(const std::string& text);

// $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or
// ~/.cache/huggingface/hub: the first that is set.
std::string HubCacheFolder();

// The folder of the snapshot that refs/main or refs/REVISION names, or of the only one. kNotFound
// where there is none, or a file of it is not here whole, with the command that downloads it.
Result<std::string> FindInHubCache(HubKind kind, const std::string& name);

// The same snapshot of a path that ends with models--ORG--NAME; another path is itself.
Result<std::string> SnapshotInside(const std::string& path);

}  // namespace nxdkit::hf
