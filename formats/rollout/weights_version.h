// version.json in the folder of a bundle's weights: which version they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::rollout {

struct WeightsVersion {
  int64_t serial = 0;    // counts the refreshes of the bundle
  std::string label;     // what the user calls it: "step_120"
  std::string source;    // the path it was made from, as given
  std::string digest{};  // of the model, "sha256:..."; "" when nobody computed it
  bool operator==(const WeightsVersion&) const = default;
};
inline constexpr char kVersionName[] = "version.json";
std::string WriteVersion(const WeightsVersion& version);
// kCorrupt, kUnsupported naming the key, found and expected.
Result<WeightsVersion> ParseVersion(std::string_view json_text, const std::string& path);
// nullopt: the folder has none, as weights that were never refreshed.
Result<std::optional<WeightsVersion>> ReadVersion(const std::string& folder);

}  // namespace nxdkit::rollout
