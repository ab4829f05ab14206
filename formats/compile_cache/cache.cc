#include "formats/compile_cache/cache.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "lib/hash/digest.h"
#include "lib/json/json.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"

namespace nxdkit::neff {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCompilerPrefix = "neuronxcc-";
constexpr std::string_view kModulePrefix = "MODULE_";
constexpr size_t kKeyDigits = 20;
constexpr size_t kFlagsDigits = 8;

bool IsHex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool IsWellNamed(std::string_view module) {
  if (!module.starts_with(kModulePrefix)) return false;
  module.remove_prefix(kModulePrefix.size());
  const size_t plus = module.find('+');
  if (plus == std::string_view::npos || plus == 0) return false;
  const std::string_view flags = module.substr(plus + 1);
  return IsHex(module.substr(0, plus)) && flags.size() == kFlagsDigits && IsHex(flags);
}

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Folders themselves, not links to folders: what is listed may be removed.
bool IsRealFolder(const std::string& path) {
  struct stat at;
  return ::lstat(path.c_str(), &at) == 0 && S_ISDIR(at.st_mode);
}

// Sums up the files of an entry. A file that goes meanwhile counts nothing.
void CountFiles(CacheEntry& entry) {
  std::error_code error;
  fs::recursive_directory_iterator it(entry.path, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    struct stat at;
    if (::lstat(it->path().c_str(), &at) != 0 || !S_ISREG(at.st_mode)) continue;
    ++entry.files;
    entry.bytes += static_cast<uint64_t>(at.st_size);
  }
}

// The marker is touched by us on use; the vendor's libraries only read the payload.
void FindLastUse(CacheEntry& entry) {
  struct stat at;
  if (::lstat(entry.path.c_str(), &at) == 0) entry.used_ns = Nanoseconds(at.st_mtim);
  if (::lstat(JoinPath(entry.path, kDoneFile).c_str(), &at) == 0)
    entry.used_ns = std::max(entry.used_ns, Nanoseconds(at.st_mtim));
  if (!entry.payload.empty() && ::lstat(JoinPath(entry.path, entry.payload).c_str(), &at) == 0)
    entry.used_ns = std::max(entry.used_ns, Nanoseconds(at.st_atim));
}

}  // namespace

CacheKey MakeKey(std::string graph, const std::vector<std::string>& flags) {
  CacheKey key;
  // One line, ", " between the flags, as json.dumps without indentation.
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
  CountFiles(entry);
  FindLastUse(entry);
  return entry;
}

Result<CacheListing> ListCache(const std::string& root) {
  CacheListing listing;
  listing.root = root;
  NXDKIT_ASSIGN(const std::vector<std::string> compilers, ListFolder(root));
  for (const std::string& compiler : compilers) {
    const std::string folder = JoinPath(root, compiler);
    if (!compiler.starts_with(kCompilerPrefix) || !IsRealFolder(folder)) {
      listing.strangers.push_back(compiler);
      continue;
    }
    const Result<std::vector<std::string>> modules = ListFolder(folder);
    if (!modules.ok() && modules.error().code() == Errc::kNotFound) continue;
    if (!modules.ok()) return modules.error();
    for (const std::string& module : *modules) {
      const std::string path = JoinPath(folder, module);
      if (!module.starts_with(kModulePrefix) || !IsRealFolder(path)) {
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

bool LooksLikeCache(const std::string& path) {
  const Result<std::vector<std::string>> names = ListFolder(path);
  return names.ok() && std::ranges::any_of(*names, [&](const std::string& name) {
           return name.starts_with(kCompilerPrefix) && IsRealFolder(JoinPath(path, name));
         });
}

}  // namespace nxdkit::neff
