#include "formats/manifest/manifest.h"

#include <fmt/core.h>

#include "lib/base/utf8.h"
#include "lib/hash/tree_digest.h"
#include "lib/json/json.h"

namespace nxdkit::manifest {
namespace {

constexpr char kFormat[] = "nxdkit-manifest";
constexpr int64_t kVersion = 1;

uint64_t BytesOf(const ParamDigest& param) {
  const Result<uint64_t> bytes = PackedBytes(param.dtype, param.shape);
  return bytes.ok() ? *bytes : 0;
}

Status CheckText(const std::string& name) {
  const std::optional<size_t> fault = ValidateUtf8(name);
  if (!fault) return OkStatus();
  return Error(Errc::kUnsupported,
               fmt::format("byte {} of the name is not UTF-8, and JSON cannot hold it", *fault));
}

// One entry for each line: a manifest is read by people, too.
template <typename Row, typename ToJson>
std::string Lines(const std::vector<Row>& rows, const ToJson& to_json) {
  std::string text;
  for (const Row& row : rows)
    text += fmt::format("{}\n      {}", text.empty() ? "" : ",", Json(to_json(row)).dump());
  return text.empty() ? "[]" : "[" + text + "\n    ]";
}

Json ParamJson(const ParamDigest& param) {
  return {{"name", param.name},
          {"dtype", Name(param.dtype)},
          {"shape", param.shape},
          {"bytes", BytesOf(param)},
          {"digest", DigestText(param.root)}};
}

Json FileJson(const FileDigest& file) {
  return {{"path", file.path}, {"bytes", file.bytes}, {"digest", DigestText(file.digest)}};
}

}  // namespace

Result<std::string> WriteManifest(const Manifest& manifest) {
  for (const ParamDigest& param : manifest.model.params) {
    Status text = CheckText(param.name);
    if (!text.ok()) return std::move(text).error().on(param.name);
  }
  for (const FileDigest& file : manifest.files) {
    Status text = CheckText(file.path);
    if (!text.ok()) return std::move(text).error().in(file.path);
  }
  std::string text = fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"model\": {{\n    \"digest\": \"{}\",\n"
      "    \"leaf_bytes\": {},\n    \"parameters\": {}\n  }}",
      kFormat, kVersion, DigestText(manifest.model.digest), kLeafBytes,
      Lines(manifest.model.params, ParamJson));
  if (!manifest.kind.empty())
    text += fmt::format(",\n  \"artifact\": {{\n    \"kind\": {},\n    \"files\": {}\n  }}",
                        Json(manifest.kind).dump(), Lines(manifest.files, FileJson));
  return text + "\n}\n";
}

namespace {

Result<Sha256Bytes> DigestOf(const Json& object) {
  NXDKIT_ASSIGN(const std::string text, JsonString(object, "digest"));
  Result<Sha256Bytes> digest = ParseDigest(text);
  if (!digest.ok()) return std::move(digest).error().member("digest");
  return digest;
}

// "key" of `object`; kCorrupt unless it is of this kind.
Result<const Json*> Child(const Json& object, const char* key, bool array) {
  const Json* child = JsonFind(object, key);
  if (child && (array ? child->is_array() : child->is_object())) return child;
  return Error(Errc::kCorrupt,
               fmt::format("{}; expected {}",
                           child ? fmt::format("found {}", JsonTypeText(*child)) : "missing",
                           array ? "an array" : "an object"))
      .member(key);
}

Result<Shape> ShapeOf(const Json& object) {
  NXDKIT_ASSIGN(const Json* dims, Child(object, "shape", true));
  Shape shape;
  for (const Json& dim : *dims) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > INT64_MAX)
      return Error(Errc::kCorrupt,
                   fmt::format("found {}, expected an integer from 0 on", JsonExcerpt(dim)))
          .member("shape");
    shape.push_back(dim.get<int64_t>());
  }
  return shape;
}

Result<ParamDigest> ReadParam(const Json& row) {
  ParamDigest param;
  NXDKIT_ASSIGN(param.name, JsonString(row, "name"));
  const auto rest = [&]() -> Status {
    NXDKIT_ASSIGN(const std::string dtype, JsonString(row, "dtype"));
    const std::optional<Dtype> known = DtypeFromName(dtype);
    if (!known)
      return Error(Errc::kCorrupt, fmt::format("\"{}\" is not a dtype", dtype)).member("dtype");
    param.dtype = *known;
    NXDKIT_ASSIGN(param.shape, ShapeOf(row));
    NXDKIT_ASSIGN(param.root, DigestOf(row));
    NXDKIT_ASSIGN(const int64_t bytes, JsonInt(row, "bytes"));
    NXDKIT_ASSIGN(const uint64_t packed, PackedBytes(param.dtype, param.shape));
    if (bytes < 0 || static_cast<uint64_t>(bytes) != packed)
      return Error(Errc::kCorrupt, fmt::format("found {}, but {} {} takes {}", bytes,
                                               Name(param.dtype), ShapeText(param.shape), packed))
          .member("bytes");
    return OkStatus();
  };
  Status status = rest();
  if (!status.ok()) return std::move(status).error().on(param.name);
  return param;
}

Status CheckHeading(const Json& json) {
  NXDKIT_ASSIGN(const std::string format, JsonString(json, "format"));
  if (format != kFormat)
    return Error(Errc::kCorrupt, fmt::format("found \"{}\", expected \"{}\"", format, kFormat))
        .member("format");
  NXDKIT_ASSIGN(const int64_t version, JsonInt(json, "version"));
  if (version != kVersion)
    return Error(Errc::kUnsupported,
                 fmt::format("version {} found, this program reads {}", version, kVersion))
        .member("version");
  return OkStatus();
}

Result<ModelDigest> ReadModel(const Json& json) {
  NXDKIT_ASSIGN(const Json* model, Child(json, "model", false));
  NXDKIT_ASSIGN(const Sha256Bytes digest, DigestOf(*model));
  NXDKIT_ASSIGN(const int64_t leaf_bytes, JsonInt(*model, "leaf_bytes"));
  if (leaf_bytes != static_cast<int64_t>(kLeafBytes))
    return Error(Errc::kUnsupported, fmt::format("leaves of {} bytes found, this program knows {}",
                                                 leaf_bytes, kLeafBytes))
        .member("leaf_bytes");
  NXDKIT_ASSIGN(const Json* rows, Child(*model, "parameters", true));
  std::vector<ParamDigest> params;
  for (const Json& row : *rows) {
    NXDKIT_ASSIGN(ParamDigest param, ReadParam(row));
    if (!params.empty() && params.back().name >= param.name)
      return Error(Errc::kCorrupt,
                   fmt::format("parameters are not in order: \"{}\" comes before it",
                               params.back().name))
          .on(param.name);
    params.push_back(std::move(param));
  }
  ModelDigest out = MakeModelDigest(std::move(params));
  if (out.digest != digest)
    return Error(Errc::kCorrupt, fmt::format("found {}, but the parameters give {}",
                                             DigestText(digest), DigestText(out.digest)))
        .member("digest");
  return out;
}

Status ReadArtifact(const Json& json, Manifest& manifest) {
  if (!JsonFind(json, "artifact")) return OkStatus();
  NXDKIT_ASSIGN(const Json* artifact, Child(json, "artifact", false));
  NXDKIT_ASSIGN(manifest.kind, JsonString(*artifact, "kind"));
  NXDKIT_ASSIGN(const Json* rows, Child(*artifact, "files", true));
  for (const Json& row : *rows) {
    FileDigest file;
    NXDKIT_ASSIGN(file.path, JsonString(row, "path"));
    NXDKIT_ASSIGN(const int64_t bytes, JsonInt(row, "bytes"));
    if (bytes < 0)
      return Error(Errc::kCorrupt, fmt::format("found {}, expected 0 or more", bytes))
          .member("bytes");
    file.bytes = static_cast<uint64_t>(bytes);
    NXDKIT_ASSIGN(file.digest, DigestOf(row));
    if (!manifest.files.empty() && manifest.files.back().path >= file.path)
      return Error(Errc::kCorrupt, fmt::format("files are not in order: \"{}\" after \"{}\"",
                                               file.path, manifest.files.back().path))
          .member("path");
    manifest.files.push_back(std::move(file));
  }
  return OkStatus();
}

}  // namespace

Result<Manifest> ReadManifest(std::string_view text) {
  NXDKIT_ASSIGN(const Json json, ParseJson(text));
  NXDKIT_TRY(CheckHeading(json));
  Manifest manifest;
  NXDKIT_ASSIGN(manifest.model, ReadModel(json));
  NXDKIT_TRY(ReadArtifact(json, manifest));
  return manifest;
}

}  // namespace nxdkit::manifest
