// PRIVATE to trainer/config. Collects the findings of the rules.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/text.h"
#include "lib/system/look.h"
#include "trainer/config/load.h"

namespace nxdkit::trainer {

inline constexpr std::string_view kTrainTp = "worker.actor.tensor_parallel_size";

class Checker {
 public:
  explicit Checker(const LoadedConfig& loaded) : loaded_(loaded) {}

  const Config& config() const { return loaded_.config; }
  const LoadedConfig& loaded() const { return loaded_; }

  void Problem(std::string_view key, std::string message, std::string fix = "",
               Errc code = Errc::kUsage) {
    std::string place = IsSet(key) ? loaded_.PlaceOf(key) : loaded_.path;
    problems.push_back(
        {code, std::string(key), std::move(message), std::move(fix), std::move(place)});
  }
  // Whether the file or an override sets it.
  bool IsSet(std::string_view key) const {
    return loaded_.SourceOf(key).kind != SourceKind::kDefault;
  }
  int64_t longest_sequence() const {
    return config().data.max_prompt_length + config().data.max_response_length;
  }
  // "data.max_prompt_length 512 + data.max_response_length 256 = 768", for messages.
  std::string LongestSequenceText() const {
    return fmt::format("data.max_prompt_length {} + data.max_response_length {} = {}",
                       config().data.max_prompt_length, config().data.max_response_length,
                       longest_sequence());
  }

  void Note(std::string_view text) { notes.emplace_back(text); }

  std::vector<ConfigProblem> problems;
  std::vector<std::string> notes;

 private:
  const LoadedConfig& loaded_;
};

// Adds a problem if `path` is set and is not the `wanted` kind, a file or a folder.
inline void CheckPath(Checker& check, std::string_view key, const std::optional<std::string>& path,
                      PathKind wanted) {
  if (!path) return;
  const char* what = wanted == PathKind::kFile ? "file" : "folder";
  const Result<PathKind> kind = KindOf(*path);
  if (!kind.ok())
    return check.Problem(key, EscapeControl(kind.error().ToString()), "", kind.error().code());
  if (*kind == wanted) return;
  const std::string shown = EscapeControl(*path);
  check.Problem(key,
                *kind == PathKind::kMissing ? fmt::format("there is no {} {}", what, shown)
                                            : fmt::format("{} is not a {}", shown, what),
                "", Errc::kNotFound);
}

// Up to 8 of the numbers from `most` down to 1 that pass, as "64, 32, 16, ..."; "" if none does.
template <typename Passes>
std::string LegalValues(int64_t most, Passes passes) {
  constexpr int kShown = 8;
  constexpr int64_t kTried = 1 << 16;
  std::string text;
  int shown = 0;
  for (int64_t value = most; value > 0 && value > most - kTried; --value) {
    if (!passes(value)) continue;
    if (shown++ == kShown) return text + ", ...";
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  return text;
}

}  // namespace nxdkit::trainer
