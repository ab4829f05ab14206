#include "formats/manifest/manifest.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/errors.h"
#include "lib/base/utf8.h"
#include "lib/hash/tree_digest.h"
#include "lib/json/json.h"

namespace nxdkit::manifest {
namespace {

constexpr char kFormat[] = "nxdkit-manifest";
constexpr int64_t kVersion = 1;
constexpr std::string_view kDigestPrefix = "sha256:";
// The start of a digest of this kind; no other text that is hashed here begins with it.
constexpr std::string_view kModelHeading = "nxdkit-model-digest 1\n";

uint64_t BytesOf(const ParamDigest& param) {
  const Result<uint64_t> bytes = PackedBytes(param.dtype, param.shape);
  return bytes.ok() ? *bytes : 0;
}

Status CheckText(const std::string& name) {
  const std::optional<size_t> fault = ValidateUtf8(name);
  if (!fault) return OkStatus();
  return Unsupported("byte {} of the name is not UTF-8, and JSON cannot hold it", *fault);
}

// One entry per line: people read manifests, too.
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

// Lower case only: each digest has one spelling.
int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

Result<Sha256Bytes> DigestOf(const Json& object) {
  NXDKIT_ASSIGN(const std::string text, JsonString(object, "digest"));
  Result<Sha256Bytes> digest = ParseDigest(text);
  if (!digest.ok()) return std::move(digest).error().member("digest");
  return digest;
}

Result<Shape> ShapeOf(const Json& object) {
  NXDKIT_ASSIGN(const Json* dims, JsonArray(object, "shape"));
  Shape shape;
  for (const Json& dim : *dims) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > INT64_MAX)
      return Corrupt("found {}, expected an integer from 0 on", JsonExcerpt(dim)).member("shape");
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
    if (!known) return Corrupt("\"{}\" is not a dtype", dtype).member("dtype");
    param.dtype = *known;
    NXDKIT_ASSIGN(param.shape, ShapeOf(row));
    NXDKIT_ASSIGN(param.root, DigestOf(row));
    NXDKIT_ASSIGN(const int64_t bytes, JsonInt(row, "bytes"));
    NXDKIT_ASSIGN(const uint64_t packed, PackedBytes(param.dtype, param.shape));
    if (bytes < 0 || static_cast<uint64_t>(bytes) != packed)
      return Corrupt("found {}, but {} {} takes {}", bytes, Name(param.dtype),
                     ShapeText(param.shape), packed)
          .member("bytes");
    return OkStatus();
  };
  NXDKIT_TRY(rest().on(param.name));
  return param;
}

Status CheckHeading(const Json& json) {
  NXDKIT_ASSIGN(const std::string format, JsonString(json, "format"));
  if (format != kFormat)
    return Corrupt("found \"{}\", expected \"{}\"", format, kFormat).member("format");
  NXDKIT_ASSIGN(const int64_t version, JsonInt(json, "version"));
  if (version != kVersion)
    return Unsupported("version {} found, this program reads {}", version, kVersion)
        .member("version");
  return OkStatus();
}

Result<ModelDigest> ReadModel(const Json& json) {
  NXDKIT_ASSIGN(const Json* model, JsonObject(json, "model"));
  NXDKIT_ASSIGN(const Sha256Bytes digest, DigestOf(*model));
  NXDKIT_ASSIGN(const int64_t leaf_bytes, JsonInt(*model, "leaf_bytes"));
  if (leaf_bytes != static_cast<int64_t>(kLeafBytes))
    return Unsupported("leaves of {} bytes found, this program knows {}", leaf_bytes, kLeafBytes)
        .member("leaf_bytes");
  NXDKIT_ASSIGN(const Json* rows, JsonArray(*model, "parameters"));
  std::vector<ParamDigest> params;
  for (const Json& row : *rows) {
    NXDKIT_ASSIGN(ParamDigest param, ReadParam(row));
    if (!params.empty() && params.back().name >= param.name)
      return Corrupt("parameters are not in order: \"{}\" comes before it", params.back().name)
          .on(param.name);
    params.push_back(std::move(param));
  }
  if (params.empty()) return Corrupt("it records no parameter").member("parameters");
  ModelDigest out = MakeModelDigest(std::move(params));
  if (out.digest != digest)
    return Corrupt("found {}, but the parameters give {}", DigestText(digest),
                   DigestText(out.digest))
        .member("digest");
  return out;
}

Status ReadArtifact(const Json& json, Manifest& manifest) {
  if (!JsonFind(json, "artifact")) return OkStatus();
  NXDKIT_ASSIGN(const Json* artifact, JsonObject(json, "artifact"));
  NXDKIT_ASSIGN(manifest.kind, JsonString(*artifact, "kind"));
  NXDKIT_ASSIGN(const Json* rows, JsonArray(*artifact, "files"));
  for (const Json& row : *rows) {
    FileDigest file;
    NXDKIT_ASSIGN(file.path, JsonString(row, "path"));
    NXDKIT_ASSIGN(const int64_t bytes, JsonInt(row, "bytes"));
    if (bytes < 0) return Corrupt("found {}, expected 0 or more", bytes).member("bytes");
    file.bytes = static_cast<uint64_t>(bytes);
    NXDKIT_ASSIGN(file.digest, DigestOf(row));
    if (!manifest.files.empty() && manifest.files.back().path >= file.path)
      return Corrupt("files are not in order: \"{}\" after \"{}\"", file.path,
                     manifest.files.back().path)
          .member("path");
    manifest.files.push_back(std::move(file));
  }
  if (manifest.files.empty()) return Corrupt("it records no file").member("files");
  return OkStatus();
}

}  // namespace

std::string ParamLine(const ParamDigest& param) {
  return fmt::format("{} {} [{}] {}:{}\n", HexText(param.root), Name(param.dtype),
                     fmt::join(param.shape, ","), param.name.size(), param.name);
}

ModelDigest MakeModelDigest(std::vector<ParamDigest> params) {
  ModelDigest model;
  model.params = std::move(params);
  std::ranges::sort(model.params, {}, &ParamDigest::name);
  Sha256 sha;
  sha.Update(std::as_bytes(std::span(kModelHeading)));
  for (const ParamDigest& param : model.params) {
    const std::string line = ParamLine(param);
    sha.Update(std::as_bytes(std::span(line)));
  }
  model.digest = sha.Finish();
  return model;
}

std::string DigestText(const Sha256Bytes& digest) {
  return std::string(kDigestPrefix) + HexText(digest);
}

Result<Sha256Bytes> ParseDigest(std::string_view text) {
  const auto wrong = [&] {
    return Corrupt("found \"{}\", expected sha256: and 64 lower-case hexadecimal digits",
                   text.substr(0, 80));
  };
  if (!text.starts_with(kDigestPrefix)) return wrong();
  const std::string_view digits = text.substr(kDigestPrefix.size());
  Sha256Bytes digest;
  if (digits.size() != 2 * digest.size()) return wrong();
  for (size_t i = 0; i < digest.size(); ++i) {
    const int high = HexValue(digits[2 * i]);
    const int low = HexValue(digits[2 * i + 1]);
    if (high < 0 || low < 0) return wrong();
    digest[i] = static_cast<std::byte>(high * 16 + low);
  }
  return digest;
}

Result<std::string> WriteManifest(const Manifest& manifest) {
  for (const ParamDigest& param : manifest.model.params)
    NXDKIT_TRY(CheckText(param.name).on(param.name));
  for (const FileDigest& file : manifest.files) NXDKIT_TRY(CheckText(file.path).in(file.path));
  std::string text = fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"model\": {{\n    \"digest\": \"{}\",\n"
      "    \"leaf_bytes\": {},\n    \"parameters\": {}\n  }}",
      kFormat, kVersion, DigestText(manifest.model.digest), kLeafBytes,
      Lines(manifest.model.params, ParamJson));
  if (!manifest.family.empty())
    text += fmt::format(",\n  \"family\": {{\n    \"name\": {},\n    \"sha256\": \"{}\"\n  }}",
                        Json(manifest.family).dump(), manifest.family_sha256);
  if (!manifest.kind.empty())
    text += fmt::format(",\n  \"artifact\": {{\n    \"kind\": {},\n    \"files\": {}\n  }}",
                        Json(manifest.kind).dump(), Lines(manifest.files, FileJson));
  return text + "\n}\n";
}

Result<Manifest> ReadManifest(std::string_view text) {
  NXDKIT_ASSIGN(const Json json, ParseJson(text));
  NXDKIT_TRY(CheckHeading(json));
  Manifest manifest;
  NXDKIT_ASSIGN(manifest.model, ReadModel(json));
  NXDKIT_TRY(ReadArtifact(json, manifest));
  return manifest;
}

}  // namespace nxdkit::manifest
