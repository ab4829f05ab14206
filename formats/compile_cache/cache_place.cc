#include "formats/compile_cache/cache_place.h"

#include <fmt/core.h>

#include "formats/compile_cache/cache.h"

namespace nxdkit::neff {
namespace {

std::vector<std::string> Words(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<std::string> words;
  for (size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;
       at = text.find_first_not_of(kSpace, at)) {
    const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

}  // namespace

CachePlace FindCache(const std::optional<std::string>& folder, std::string_view cc_flags,
                     std::string_view url) {
  constexpr std::string_view kCacheDir = "--cache_dir";
  CachePlace place;
  const std::vector<std::string> words = Words(cc_flags);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == kCacheDir && i + 1 < words.size())
      place.root = words[++i];
    else if (word.starts_with(kCacheDir) && word.substr(kCacheDir.size()).starts_with('='))
      place.root = word.substr(kCacheDir.size() + 1);
    else if (word == "--no_cache")
      place.disabled_because = "NEURON_CC_FLAGS says --no_cache";
    else if (word == "--retry_failed_compilation")
      place.retry_failed = true;
    else
      place.flags.push_back(word);
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

}  // namespace nxdkit::neff
