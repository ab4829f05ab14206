#include "formats/compile_cache/cache.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/compile_cache/entry_files.h"
#include "lib/hash/digest.h"
#include "lib/json/json.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr std::string_view kCompilerPrefix = "neuronxcc-";
constexpr std::string_view kModulePrefix = "MODULE_";
constexpr size_t kKeyDigits = 20;
constexpr size_t kFlagsDigits = 8;

bool IsWellNamed(std::string_view module) {
  if (!module.starts_with(kModulePrefix)) return false;
  module.remove_prefix(kModulePrefix.size());
  const size_t plus = module.find('+');
  if (plus == std::string_view::npos || plus == 0) return false;
  const std::string_view flags = module.substr(plus + 1);
  return IsLowerHex(module.substr(0, plus)) && flags.size() == kFlagsDigits && IsLowerHex(flags);
}

// We touch the marker on use; the vendor's libraries only read the payload.
Status FindLastUse(CacheEntry& entry) {
  NXDKIT_ASSIGN(const PathInfo folder, LookAtLink(entry.path));
  NXDKIT_ASSIGN(const PathInfo done, LookAtLink(JoinPath(entry.path, kDoneFile)));
  entry.used_ns = std::max(folder.written_ns, done.written_ns);
  if (entry.payload.empty()) return OkStatus();
  NXDKIT_ASSIGN(const PathInfo payload, LookAtLink(JoinPath(entry.path, entry.payload)));
  entry.used_ns = std::max(entry.used_ns, payload.read_ns);
  return OkStatus();
}

}  // namespace

CacheKey MakeKey(std::string graph, const std::vector<std::string>& flags) {
  CacheKey key;
  // One line, ", " between the flags, as json.dumps writes without indentation.
  key.flags_json = "[";
  std::string joined;
  for (const std::string& flag : flags) {
    key.flags_json += (key.flags_json.size() > 1 ? ", " : "") + DumpPython(flag);
    joined += flag;
  }
  key.flags_json += "]";
  std::erase(joined, ' ');
  const std::string hashed = graph + joined;
  key.module = fmt::format(
      "{}{}+{}", kModulePrefix,
      Sha256Hex(std::as_bytes(std::span(hashed.data(), hashed.size()))).substr(0, kKeyDigits),
      Md5Hex(key.flags_json).substr(0, kFlagsDigits));
  key.graph = std::move(graph);
  return key;
}

std::string_view StateName(EntryState state) {
  constexpr std::string_view kNames[] = {"done", "failed", "locked", "empty"};
  return kNames[static_cast<size_t>(state)];
}

Result<CacheEntry> ReadEntry(const std::string& path) {
  CacheEntry entry;
  entry.path = path;
  entry.module = BaseName(path);
  entry.compiler = BaseName(ParentPath(path));
  entry.well_named = IsWellNamed(entry.module);
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(path));
  const auto has = [&](std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  for (const char* payload : {kBlobFile, kNeffFile})
    if (has(payload)) entry.payload = payload;
  const bool locked =
      std::ranges::any_of(names, [](const std::string& name) { return name.ends_with(".lock"); });
  if (!entry.payload.empty() && has(kDoneFile))
    entry.state = EntryState::kDone;
  else if (has(kFailureFile) && entry.payload.empty())
    entry.state = EntryState::kFailed;
  else
    entry.state = locked ? EntryState::kLocked : EntryState::kEmpty;
  NXDKIT_TRY(CountFiles(entry));
  NXDKIT_TRY(FindLastUse(entry));
  return entry;
}

Result<CacheListing> ListCache(const std::string& root) {
  CacheListing listing;
  listing.root = root;
  NXDKIT_ASSIGN(const std::vector<std::string> compilers, ListFolder(root));
  for (const std::string& compiler : compilers) {
    const std::string folder = JoinPath(root, compiler);
    NXDKIT_ASSIGN(const bool is_folder, IsRealFolder(folder));
    if (!compiler.starts_with(kCompilerPrefix) || !is_folder) {
      listing.strangers.push_back(compiler);
      continue;
    }
    const Result<std::vector<std::string>> modules = ListFolder(folder);
    if (!modules.ok() && modules.error().code() == Errc::kNotFound) continue;
    if (!modules.ok()) return modules.error();
    for (const std::string& module : *modules) {
      const std::string path = JoinPath(folder, module);
      NXDKIT_ASSIGN(const bool is_entry, IsRealFolder(path));
      if (!module.starts_with(kModulePrefix) || !is_entry) {
        listing.strangers.push_back(JoinPath(compiler, module));
        continue;
      }
      Result<CacheEntry> entry = ReadEntry(path);
      if (!entry.ok() && entry.error().code() == Errc::kNotFound) continue;
      if (!entry.ok()) return std::move(entry).error();
      listing.bytes += entry->bytes;
      listing.entries.push_back(*std::move(entry));
    }
  }
  return listing;
}

Result<bool> LooksLikeCache(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(path));
  for (const std::string& name : names) {
    if (!name.starts_with(kCompilerPrefix)) continue;
    NXDKIT_ASSIGN(const bool is_folder, IsRealFolder(JoinPath(path, name)));
    if (is_folder) return true;
  }
  return false;
}

}  // namespace nxdkit::neff
