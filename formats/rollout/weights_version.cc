#include "formats/rollout/weights_version.h"

#include "lib/base/errors.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::rollout {
namespace {

constexpr uint64_t kMaxBytes = 1 << 20;

Result<WeightsVersion> ReadFields(const Json& json) {
  NXDKIT_ASSIGN(const int64_t schema, JsonInt(json, "schema_version"));
  if (schema != 1)
    return Unsupported("found version {}, this program knows 1", schema).member("schema_version");
  WeightsVersion version;
  NXDKIT_ASSIGN(version.serial, JsonInt(json, "serial"));
  if (version.serial < 1 || version.serial == INT64_MAX)
    return Corrupt("found {}, expected 1 or more", version.serial).member("serial");
  NXDKIT_ASSIGN(version.label, JsonString(json, "label"));
  NXDKIT_ASSIGN(version.source, JsonString(json, "source"));
  if (JsonFind(json, "digest")) NXDKIT_TRY(JsonString(json, "digest").To(version.digest));
  return version;
}

}  // namespace

std::string WriteVersion(const WeightsVersion& version) {
  Json json = {{"schema_version", 1},
               {"serial", version.serial},
               {"label", version.label},
               {"source", version.source}};
  if (!version.digest.empty()) json["digest"] = version.digest;
  return DumpPython(json) + "\n";
}

Result<WeightsVersion> ParseVersion(std::string_view json_text, const std::string& path) {
  NXDKIT_ASSIGN(const Json json, ParseJson(json_text).in(path));
  return ReadFields(json).in(path);
}

Result<std::optional<WeightsVersion>> ReadVersion(const std::string& folder) {
  const std::string path = JoinPath(folder, kVersionName);
  NXDKIT_ASSIGN(const bool there, IsThere(path));
  if (!there) return std::optional<WeightsVersion>();
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMaxBytes));
  NXDKIT_ASSIGN(WeightsVersion version, ParseVersion(text, path));
  return std::optional<WeightsVersion>(std::move(version));
}

}  // namespace nxdkit::rollout
