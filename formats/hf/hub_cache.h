// The hub's cache, where `hf download` puts models and data sets by name.
//
// ROOT/models--ORG--NAME/refs/main            the commit, as text
// ROOT/models--ORG--NAME/snapshots/COMMIT/... links to ../../blobs/ETAG
// ROOT/models--ORG--NAME/blobs/*.incomplete   unfinished downloads
// Source: huggingface_hub, "Hub local cache", written for other implementations.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::hf {

enum class HubKind { kModel, kDataset };

// True for "ORG/NAME", within the hub's rules for names, or "ORG/NAME@REVISION", if no local file
// has this name.
bool IsHubName(const std::string& text);

// The first that is set: $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub,
// $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub.
std::string HubCacheFolder();

// The folder of the snapshot that refs/main or refs/REVISION names, or of the only one. kNotFound
// where there is none, or one of its files is incomplete, with the command that downloads it.
Result<std::string> FindInHubCache(HubKind kind, const std::string& name);

// FindInHubCache for a path that ends with models--ORG--NAME; any other path is returned as it is.
Result<std::string> SnapshotInside(const std::string& path);

}  // namespace nxdkit::hf
