// version.json in the folder of a bundle's weights: their version.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::rollout {

struct WeightsVersion {
  int64_t serial = 0;    // counts the refreshes of the bundle
  std::string label;     // the user's name for it: "step_120"
  std::string source;    // the path from which it was made, as given
  std::string digest{};  // the model's, "sha256:..."; "" if it was not computed
  bool operator==(const WeightsVersion&) const = default;
};
inline constexpr char kVersionName[] = "version.json";
std::string WriteVersion(const WeightsVersion& version);
// kCorrupt, kUnsupported naming the key, found and expected.
Result<WeightsVersion> ParseVersion(std::string_view json_text, const std::string& path);
// nullopt if the folder has none, as weights that were never refreshed.
Result<std::optional<WeightsVersion>> ReadVersion(const std::string& folder);

}  // namespace nxdkit::rollout
