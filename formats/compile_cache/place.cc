#include "formats/compile_cache/place.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/compile_cache/cache.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/command_text.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr int64_t kMaxDays = 36500;

Status TakeRoot(const std::string& value, CachePlace& place) {
  place.root = value;
  return OkStatus();
}

Status TakeSize(const std::string& value, CachePlace& place) {
  return ParseBytes(value).To(place.max_bytes);
}

Status TakeDays(const std::string& value, CachePlace& place) {
  const auto days = ParseNumber<int64_t>(value);
  if (!days || *days < 0 || *days > kMaxDays)
    return BadUsage("found \"{}\", expected days from 0 to {}", value, kMaxDays);
  place.keep_seconds = *days * 24 * 3600;
  return OkStatus();
}

// Flags that the compiler's wrapper handles itself, each with a value.
struct Flag {
  std::string_view name;
  Status (*take)(const std::string& value, CachePlace& place);
};
constexpr Flag kFlags[] = {
    {"--cache_dir", TakeRoot},
    {"--cache_size", TakeSize},
    {"--cache_ttl", TakeDays},
    {"--log_level", [](const std::string&, CachePlace&) { return OkStatus(); }},
};

const Flag* FindFlag(std::string_view name) {
  const Flag* found = std::ranges::find(kFlags, name, &Flag::name);
  return found == std::end(kFlags) ? nullptr : found;
}

// Handles both "--cache_dir DIR" and "--cache_dir=DIR".
Status TakeFlags(const std::vector<std::string>& words, CachePlace& place) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const size_t equals = word.find('=');
    if (word == "--no_cache") {
      place.disabled_because = "NEURON_CC_FLAGS says --no_cache";
    } else if (word == "--retry_failed_compilation") {
      place.retry_failed = true;
    } else if (const Flag* flag = FindFlag(std::string_view(word).substr(0, equals))) {
      if (equals == std::string::npos && ++i == words.size())
        return BadUsage("NEURON_CC_FLAGS: {} has no value", word);
      const Status taken =
          flag->take(equals == std::string::npos ? words[i] : word.substr(equals + 1), place);
      if (!taken.ok())
        return BadUsage("NEURON_CC_FLAGS: {}: {}", flag->name, taken.error().message());
    } else {
      place.flags.push_back(word);
    }
  }
  return OkStatus();
}

}  // namespace

Result<CachePlace> FindCache(const std::optional<std::string>& folder, std::string_view cc_flags,
                             std::string_view url) {
  CachePlace place;
  if (cc_flags.find_first_not_of(" \t\n") != std::string_view::npos) {
    const Result<std::vector<std::string>> words = SplitCommand(std::string(cc_flags));
    if (!words.ok()) return Error(Errc::kUsage, "NEURON_CC_FLAGS: " + words.error().message());
    NXDKIT_TRY(TakeFlags(*words, place));
  }
  if (place.root.empty()) place.root = url.empty() ? std::string_view(kDefaultCacheRoot) : url;
  if (folder) {
    place.root = *folder;
    place.disabled_because.clear();
  }
  constexpr std::string_view kFile = "file://";
  if (place.root.starts_with(kFile)) place.root.erase(0, kFile.size());
  if (place.root.find("://") != std::string::npos)
    place.disabled_because =
        fmt::format("{} is an object store, and only folders are read", place.root);
  place.enabled = place.disabled_because.empty();
  return place;
}

Result<std::string> RootToRead(const std::string& root) {
  for (const std::string& folder : {root, JoinPath(root, kOldPlace)}) {
    NXDKIT_ASSIGN(const bool there, IsFolder(folder));
    if (!there) break;
    NXDKIT_ASSIGN(const bool has_entries, LooksLikeCache(folder));
    if (has_entries) return folder;
  }
  return root;
}

std::string OldPlaceNote(const std::string& root) {
  return fmt::format(
      "{} has no neuronxcc-* folder, but its {} has: entries are read from this older place; new "
      "ones are written into {}, and from then on only these are found",
      root, kOldPlace, root);
}

}  // namespace nxdkit::neff
