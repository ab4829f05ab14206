#include "formats/compile_cache/lite_tree.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/lite_owner.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr size_t kLiteKeyDigits = 32;
constexpr uint64_t kMaxTimeBytes = 64;

bool IsOfLiteTree(std::string_view name) {
  const std::optional<Leftover> leftover = ParseLeftover(name);
  return IsLiteKey(name) || KeyOfOwnerFile(name) || KeyOfOwnerLock(name) ||
         (leftover && IsLiteKey(leftover->of));
}

// The engine's note of the last hit, unix seconds; otherwise the marker's time, then the folder's.
Status FindLastLiteUse(CacheEntry& entry, bool done) {
  const std::string note = JoinPath(entry.path, kLiteAccessedFile);
  NXDKIT_ASSIGN(const std::string text, ReadStart(note, kMaxTimeBytes));
  const size_t end = text.find_last_not_of(" \n\r\t");
  const auto seconds = ParseNumber<double>(std::string_view(text).substr(0, end + 1));
  constexpr double kMostSeconds = 9e9;  // within 64 bits of nanoseconds
  if (seconds && *seconds >= 0 && *seconds < kMostSeconds) {
    entry.used_ns = static_cast<int64_t>(*seconds * 1e9);
    return OkStatus();
  }
  const std::string marker = done ? JoinPath(entry.path, kLiteMarkerFile) : entry.path;
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(marker));
  entry.used_ns = info.written_ns;
  return OkStatus();
}

}  // namespace

bool IsLiteKey(std::string_view name) { return name.size() == kLiteKeyDigits && IsLowerHex(name); }

std::string LiteNeffName(std::string_view key) { return fmt::format("graph_{}.neff", key); }

bool IsLiteMetadataName(std::string_view name) {
  return name.starts_with(".artifact_metadata_v") && name.ends_with(".json");
}

bool IsKernelName(std::string_view base_name) {
  return base_name.ends_with(kKernelSuffix) &&
         IsLiteKey(base_name.substr(0, base_name.size() - kKernelSuffix.size()));
}

bool IsKernelLockName(std::string_view base_name) {
  return base_name.ends_with(kLockSuffix) &&
         IsLiteKey(base_name.substr(0, base_name.size() - kLockSuffix.size()));
}

std::optional<Leftover> LiteLeftover(const std::string& path) {
  std::optional<Leftover> leftover = ParseLeftover(BaseName(path));
  if (!leftover) return std::nullopt;
  const std::string folder = ParentPath(path);
  const std::string& of = leftover->of;
  const bool in_root = folder == ".";
  const bool known = in_root                       ? IsLiteKey(of) || of == kLiteKernelFolder
                     : folder == kLiteKernelFolder ? IsKernelName(of) || IsKernelLockName(of)
                                                   : IsOurs(*leftover);
  return known ? leftover : std::nullopt;
}

Result<std::vector<std::string>> AbandonedInLiteTree(const CacheListing& listing,
                                                     const TreeMoment& moment) {
  std::vector<std::string> folders = {"", kLiteKernelFolder,
                                      JoinPath(kLiteKernelFolder, kLiteBinaryFolder)};
  for (const CacheEntry& entry : listing.entries)
    if (entry.state == EntryState::kDone) folders.push_back(entry.module);
  std::vector<std::string> abandoned;
  for (const std::string& folder : folders) {
    const std::string path = folder.empty() ? listing.root : JoinPath(listing.root, folder);
    NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(path));
    for (const std::string& base : names) {
      const std::string name = folder.empty() ? base : JoinPath(folder, base);
      const std::optional<Leftover> leftover = LiteLeftover(name);
      if (!leftover) continue;
      NXDKIT_ASSIGN(const bool goes, IsAbandoned(JoinPath(listing.root, name), *leftover, moment));
      if (goes) abandoned.push_back(name);
    }
  }
  return abandoned;
}

Result<bool> IsLiteTree(const std::string& root) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(root));
  if (std::ranges::any_of(names, IsOfLiteTree)) return true;
  if (std::ranges::find(names, kLiteKernelFolder) == names.end()) return false;
  NXDKIT_ASSIGN(const std::vector<std::string> kernels,
                ListIfThere(JoinPath(root, kLiteKernelFolder)));
  return std::ranges::any_of(kernels, IsKernelName);
}

Result<CacheEntry> ReadLiteEntry(const std::string& root, const std::string& key,
                                 const TreeMoment& moment) {
  CacheEntry entry;
  entry.path = JoinPath(root, key);
  entry.module = key;
  entry.well_named = IsLiteKey(key);
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(entry.path));
  const auto has = [&](std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  const std::string neff = LiteNeffName(key);
  if (has(neff)) entry.payload = neff;
  const bool done = has(kLiteGraphFile) && has(neff) && has(kLiteMarkerFile) &&
                    std::ranges::any_of(names, IsLiteMetadataName);
  if (done) {
    entry.state = EntryState::kDone;
  } else {
    NXDKIT_ASSIGN(const OwnerState owner, AskOwner(root, key, moment));
    if (owner == OwnerState::kAlive) entry.state = EntryState::kLocked;
  }
  NXDKIT_TRY(CountFiles(entry));
  NXDKIT_TRY(FindLastLiteUse(entry, done));
  return entry;
}

Result<CacheListing> ListLiteTree(const std::string& root, const TreeMoment& moment) {
  CacheListing listing;
  listing.root = root;
  NXDKIT_ASSIGN(const std::vector<FolderEntry> all, ListEntries(root));
  for (const auto& [name, kind] : all) {
    if (KeyOfOwnerFile(name) || KeyOfOwnerLock(name) || name == kLiteKernelFolder) continue;
    bool is_folder = kind == PathKind::kFolder;
    if (!kind) NXDKIT_TRY(IsRealFolder(JoinPath(root, name)).To(is_folder));
    if (!IsLiteKey(name) || !is_folder) {
      listing.strangers.push_back(name);
      continue;
    }
    Result<CacheEntry> entry = ReadLiteEntry(root, name, moment);
    if (!entry.ok() && entry.error().code() == Errc::kNotFound) continue;
    if (!entry.ok()) return std::move(entry).error();
    listing.bytes += entry->bytes;
    listing.entries.push_back(*std::move(entry));
  }
  return listing;
}

}  // namespace nxdkit::neff
