// nxdkit.json in the tag folder: our writer's record of an NxD set.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/nxd/detect.h"
#include "lib/system/looker.h"

namespace nxdkit::nxd {

// The file's name is the origin of its claims.
inline constexpr char kSidecarName[] = "nxdkit.json";
struct Sidecar {
  Claims claims;
  std::string family;
  std::string family_sha256;  // of its text; "" when not recorded
  std::string dtype;
  std::string source_digest;  // of the model from which the set was made; "" when not recorded
};
// nullopt when the folder has none. kCorrupt naming the key, kUnsupported for a newer version.
Result<std::optional<Sidecar>> ReadSidecar(const std::string& tag_folder, const Looker& look = {});
Result<Sidecar> ParseSidecar(std::string_view json_text, const std::string& path);
std::string WriteSidecar(const Geometry& geometry, const std::string& family,
                         const std::string& family_sha256, const std::string& dtype,
                         const std::string& tool_version, const std::string& source_digest = "");

}  // namespace nxdkit::nxd
