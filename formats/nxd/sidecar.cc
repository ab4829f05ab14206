#include <fmt/core.h>

#include "formats/nxd/detect.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::nxd {
namespace {

constexpr uint64_t kMaxSidecarBytes = 1 << 20;

template <typename T>
Status ReadWord(const Json& json, const char* key,
                const std::vector<std::pair<const char*, T>>& words, std::optional<T>& out) {
  NXDKIT_ASSIGN(const std::string word, JsonString(json, key));
  std::string known;
  for (const auto& [text, value] : words) {
    if (word == text) {
      out = value;
      return OkStatus();
    }
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  return Error(Errc::kCorrupt, fmt::format("found \"{}\", expected one of {}", word, known))
      .member(key);
}

Status ReadNumber(const Json& json, const char* key, std::optional<int>& out) {
  NXDKIT_ASSIGN(const int64_t number, JsonInt(json, key));
  if (number < 1 || number > 1'000'000)
    return Error(Errc::kCorrupt, fmt::format("found {}, expected 1 to 1000000", number))
        .member(key);
  out = static_cast<int>(number);
  return OkStatus();
}

Status ReadDigest(const Json& json, std::string& out) {
  constexpr std::string_view kPrefix = "sha256:";
  NXDKIT_ASSIGN(out, JsonString(json, "source_digest"));
  if (out.size() == kPrefix.size() + 64 && out.starts_with(kPrefix) &&
      out.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string::npos)
    return OkStatus();
  return Error(Errc::kCorrupt,
               fmt::format("found \"{}\", expected sha256: and 64 hexadecimal digits",
                           EscapeControl(out.substr(0, 80))))
      .member("source_digest");
}

Status Fill(const Json& json, Sidecar& sidecar) {
  NXDKIT_ASSIGN(const int64_t version, JsonInt(json, "schema_version"));
  if (version != 1)
    return Error(Errc::kUnsupported, fmt::format("found version {}, this program knows 1", version))
        .member("schema_version");
  Claims& claims = sidecar.claims;
  claims.origin = kSidecarName;
  claims.in_set = true;
  NXDKIT_TRY(ReadNumber(json, "tp", claims.tp));
  NXDKIT_TRY(ReadNumber(json, "pp", claims.pp));
  NXDKIT_TRY(ReadNumber(json, "vpp", claims.vpp));
  NXDKIT_TRY(ReadNumber(json, "ep", claims.ep));
  NXDKIT_TRY(ReadNumber(json, "kv_multiplier", claims.kv_multiplier));
  NXDKIT_TRY(ReadWord<QkvStyle>(json, "qkv",
                                {{"separate", QkvStyle::kSeparate},
                                 {"linear", QkvStyle::kLinear},
                                 {"fused", QkvStyle::kFused},
                                 {"coalesced", QkvStyle::kCoalesced}},
                                claims.qkv));
  NXDKIT_TRY(ReadWord<models::Hardware>(
      json, "hw", {{"trn1", models::Hardware::kTrn1}, {"trn2", models::Hardware::kTrn2}},
      claims.hardware));
  NXDKIT_TRY(ReadWord<NameStyle>(
      json, "style",
      {{"hf", NameStyle::kHf}, {"nxdt", NameStyle::kNxdt}, {"megatron", NameStyle::kMegatron}},
      claims.names));
  NXDKIT_ASSIGN(sidecar.family, JsonString(json, "family"));
  NXDKIT_ASSIGN(sidecar.dtype, JsonString(json, "dtype"));
  if (json.contains("source_digest")) return ReadDigest(json, sidecar.source_digest);
  return OkStatus();
}

}  // namespace

Result<Sidecar> ParseSidecar(std::string_view json_text, const std::string& path) {
  const Result<Json> json = ParseJson(json_text);
  if (!json.ok()) return Error(json.error()).in(path);
  Sidecar sidecar;
  Status filled = Fill(*json, sidecar);
  if (!filled.ok()) return std::move(filled).error().in(path);
  return sidecar;
}

Result<std::optional<Sidecar>> ReadSidecar(const std::string& tag_folder) {
  const std::string path = JoinPath(tag_folder, kSidecarName);
  if (KindOf(path) != PathKind::kFile) return std::optional<Sidecar>();
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMaxSidecarBytes));
  NXDKIT_ASSIGN(Sidecar sidecar, ParseSidecar(text, path));
  return std::optional<Sidecar>(std::move(sidecar));
}

std::string WriteSidecar(const Geometry& geometry, const std::string& family,
                         const std::string& dtype, const std::string& tool_version,
                         const std::string& source_digest) {
  Json json = Json::object();
  json["schema_version"] = 1;
  json["tool_version"] = tool_version;
  json["family"] = family;
  json["dtype"] = dtype;
  if (!source_digest.empty()) json["source_digest"] = source_digest;
  json["tp"] = geometry.tp;
  json["pp"] = geometry.pp;
  json["vpp"] = geometry.vpp;
  json["ep"] = geometry.ep;
  json["kv_multiplier"] = geometry.kv_multiplier;
  json["qkv"] = QkvStyleName(geometry.qkv);
  json["hw"] = geometry.hardware == models::Hardware::kTrn1 ? "trn1" : "trn2";
  json["style"] = NameStyleName(geometry.names);
  return DumpPython(json) + "\n";
}

}  // namespace nxdkit::nxd
