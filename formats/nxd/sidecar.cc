#include "formats/nxd/sidecar.h"

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::nxd {
namespace {

constexpr uint64_t kMaxSidecarBytes = 1 << 20;

// Reads one of `values`, each written as the word that `name` returns for it.
template <typename T>
Status ReadWord(const Json& json, const char* key, std::initializer_list<T> values,
                std::string_view (*name)(T), std::optional<T>& out) {
  NXDKIT_ASSIGN(const std::string word, JsonString(json, key));
  std::string known;
  for (const T value : values) {
    if (word == name(value)) {
      out = value;
      return OkStatus();
    }
    known.append(known.empty() ? "" : ", ").append(name(value));
  }
  return Corrupt("found \"{}\", expected one of {}", word, known).member(key);
}

Status ReadNumber(const Json& json, const char* key, std::optional<int>& out) {
  NXDKIT_ASSIGN(const int64_t number, JsonInt(json, key));
  if (number < 1 || number > 1'000'000)
    return Corrupt("found {}, expected 1 to 1000000", number).member(key);
  out = static_cast<int>(number);
  return OkStatus();
}

Status ReadDigest(const Json& json, std::string& out) {
  constexpr std::string_view kPrefix = "sha256:";
  NXDKIT_ASSIGN(out, JsonString(json, "source_digest"));
  if (out.size() == kPrefix.size() + 64 && out.starts_with(kPrefix) &&
      out.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string::npos)
    return OkStatus();
  return Corrupt("found \"{}\", expected sha256: and 64 hexadecimal digits",
                 EscapeControl(out.substr(0, 80)))
      .member("source_digest");
}

Result<Sidecar> ReadRecord(const Json& json) {
  NXDKIT_ASSIGN(const int64_t version, JsonInt(json, "schema_version"));
  if (version != 1)
    return Unsupported("found version {}, this program knows 1", version).member("schema_version");
  Sidecar sidecar;
  Claims& claims = sidecar.claims;
  claims.origin = kSidecarName;
  claims.in_set = true;
  NXDKIT_TRY(ReadNumber(json, "tp", claims.tp));
  NXDKIT_TRY(ReadNumber(json, "pp", claims.pp));
  NXDKIT_TRY(ReadNumber(json, "vpp", claims.vpp));
  NXDKIT_TRY(ReadNumber(json, "ep", claims.ep));
  NXDKIT_TRY(ReadNumber(json, "kv_multiplier", claims.kv_multiplier));
  NXDKIT_TRY(ReadWord(
      json, "qkv", {QkvStyle::kSeparate, QkvStyle::kLinear, QkvStyle::kFused, QkvStyle::kCoalesced},
      QkvStyleName, claims.qkv));
  NXDKIT_TRY(ReadWord(json, "hw", {models::Hardware::kTrn1, models::Hardware::kTrn2},
                      models::HardwareName, claims.hardware));
  NXDKIT_TRY(ReadWord(json, "style", {NameStyle::kHf, NameStyle::kNxdt, NameStyle::kMegatron},
                      NameStyleName, claims.names));
  NXDKIT_ASSIGN(sidecar.family, JsonString(json, "family"));
  if (json.contains("family_sha256"))
    NXDKIT_TRY(JsonString(json, "family_sha256").To(sidecar.family_sha256));
  NXDKIT_ASSIGN(sidecar.dtype, JsonString(json, "dtype"));
  if (json.contains("source_digest")) NXDKIT_TRY(ReadDigest(json, sidecar.source_digest));
  return sidecar;
}

}  // namespace

Result<Sidecar> ParseSidecar(std::string_view json_text, const std::string& path) {
  NXDKIT_ASSIGN(const Json json, ParseJson(json_text).in(path));
  return ReadRecord(json).in(path);
}

Result<std::optional<Sidecar>> ReadSidecar(const std::string& tag_folder, const Looker& look) {
  const std::string path = JoinPath(tag_folder, kSidecarName);
  NXDKIT_ASSIGN(const bool there, look.IsFile(path));
  if (!there) return std::optional<Sidecar>();
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMaxSidecarBytes));
  NXDKIT_ASSIGN(Sidecar sidecar, ParseSidecar(text, path));
  return std::optional<Sidecar>(std::move(sidecar));
}

std::string WriteSidecar(const Geometry& geometry, const std::string& family,
                         const std::string& family_sha256, const std::string& dtype,
                         const std::string& tool_version, const std::string& source_digest) {
  Json json = {{"schema_version", 1},
               {"tool_version", tool_version},
               {"family", family},
               {"family_sha256", family_sha256},
               {"dtype", dtype},
               {"tp", geometry.tp},
               {"pp", geometry.pp},
               {"vpp", geometry.vpp},
               {"ep", geometry.ep},
               {"kv_multiplier", geometry.kv_multiplier},
               {"qkv", QkvStyleName(geometry.qkv)},
               {"hw", models::HardwareName(geometry.hardware)},
               {"style", NameStyleName(geometry.names)}};
  if (!source_digest.empty()) json["source_digest"] = source_digest;
  return DumpPython(json) + "\n";
}

}  // namespace nxdkit::nxd
