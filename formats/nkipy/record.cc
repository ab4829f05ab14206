#include "formats/nkipy/record.h"

#include <algorithm>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"

namespace nxdkit::nkipy {
namespace {

constexpr char kFormat[] = "nkipy";

Result<std::vector<RecordedFile>> ReadFiles(const Json& json) {
  NXDKIT_ASSIGN(const Json* rows, JsonArray(json, "files"));
  std::vector<RecordedFile> files;
  for (const Json& row : *rows) {
    RecordedFile file;
    NXDKIT_TRY(JsonString(row, "name").To(file.name));
    NXDKIT_ASSIGN(const int64_t bytes, JsonInt(row, "bytes"));
    if (bytes < 0) return Corrupt("found {}, expected 0 or more", bytes).member("bytes");
    file.bytes = static_cast<uint64_t>(bytes);
    files.push_back(std::move(file));
  }
  return files;
}

const RecordedFile* Find(const std::vector<RecordedFile>& files, std::string_view name) {
  const auto it = std::ranges::find(files, name, &RecordedFile::name);
  return it == files.end() ? nullptr : &*it;
}

}  // namespace

std::string RecordText(const Geometry& geometry, const models::Family& family, Dtype dtype,
                       const std::vector<RecordedFile>& files, const std::string& source_digest) {
  Json rows = Json::array();
  for (const RecordedFile& file : files)
    rows.push_back({{"name", file.name}, {"bytes", file.bytes}});
  Json json = {
      {"schema_version", 1},         {"nxdkit_version", NXDKIT_VERSION},
      {"format", kFormat},           {"layout_is", "derived from the vendor's script, not run"},
      {"tp", geometry.tp},           {"tok_embedding", EmbeddingName(geometry.embedding)},
      {"family", family.model_type}, {"family_sha256", family.digest},
      {"dtype", TorchName(dtype)},   {"files", std::move(rows)}};
  if (!source_digest.empty()) json["source_digest"] = source_digest;
  return DumpPython(json) + "\n";
}

Status CheckRecord(std::string_view json_text, const std::string& path,
                   const std::vector<RecordedFile>& found) {
  NXDKIT_ASSIGN(const Json json, ParseJson(json_text).in(path));
  NXDKIT_ASSIGN(const std::string format, JsonString(json, "format").in(path));
  if (format != kFormat) return OkStatus();
  NXDKIT_ASSIGN(const int64_t version, JsonInt(json, "schema_version").in(path));
  if (version != 1)
    return Unsupported("found version {}, this program knows 1", version)
        .member("schema_version")
        .in(path);
  NXDKIT_ASSIGN(const std::vector<RecordedFile> recorded, ReadFiles(json).in(path));
  for (const RecordedFile& file : recorded) {
    const RecordedFile* here = Find(found, file.name);
    const std::string name = EscapeControl(file.name);
    if (!here)
      return Corrupt("the record has {}, and {} rank files are here, expected {}", name,
                     found.size(), recorded.size())
          .in(path);
    if (here->bytes != file.bytes)
      return Corrupt("{} has {} bytes, expected {} by the record", name, here->bytes, file.bytes)
          .in(path);
  }
  for (const RecordedFile& file : found)
    if (!Find(recorded, file.name))
      return Corrupt("{} is not in the record: {} rank files are here, expected {}", file.name,
                     found.size(), recorded.size())
          .in(path);
  return OkStatus();
}

}  // namespace nxdkit::nkipy
