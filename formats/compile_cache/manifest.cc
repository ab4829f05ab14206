#include "formats/compile_cache/manifest.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/hash/digest.h"
#include "lib/json/json.h"
#include "lib/system/file.h"

namespace nxdkit::neff {
namespace {

constexpr char kSchema[] = "nxdkit-cache-entry";
constexpr int64_t kVersion = 1;
constexpr size_t kMaxFiles = 1000;
constexpr size_t kBlock = 1 << 20;

Result<ManifestFile> ParseFile(const Json& json) {
  ManifestFile file;
  NXDKIT_ASSIGN(file.name, JsonString(json, "name"));
  NXDKIT_ASSIGN(const int64_t bytes, JsonInt(json, "bytes"));
  NXDKIT_ASSIGN(file.digest, JsonString(json, "digest"));
  if (file.name.empty() || file.name == "." || file.name == ".." ||
      file.name.find('/') != std::string::npos)
    return Error(Errc::kCorrupt, fmt::format("found \"{}\", expected the name of a file of the "
                                             "entry",
                                             file.name))
        .member("name");
  if (bytes < 0)
    return Error(Errc::kCorrupt, fmt::format("found {}, expected a size", bytes)).member("bytes");
  file.bytes = static_cast<uint64_t>(bytes);
  return file;
}

Result<Manifest> Parse(const Json& json) {
  Manifest manifest;
  NXDKIT_ASSIGN(const std::string schema, JsonString(json, "schema"));
  NXDKIT_ASSIGN(const int64_t version, JsonInt(json, "version"));
  if (schema != kSchema)
    return Error(Errc::kCorrupt, fmt::format("found \"{}\", expected \"{}\"", schema, kSchema))
        .member("schema");
  if (version != kVersion)
    return Error(Errc::kUnsupported,
                 fmt::format("version {} found, this program knows {}", version, kVersion))
        .member("version");
  NXDKIT_ASSIGN(manifest.summary, JsonString(json, "summary"));
  const Json* files = JsonFind(json, "files");
  if (files == nullptr || !files->is_array() || files->size() > kMaxFiles)
    return Error(Errc::kCorrupt, fmt::format("found {}, expected an array of at most {} files",
                                             files ? JsonExcerpt(*files) : "nothing", kMaxFiles))
        .member("files");
  for (const Json& item : *files) {
    NXDKIT_ASSIGN(ManifestFile file, ParseFile(item));
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

}  // namespace

std::string WriteManifest(const Manifest& manifest) {
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files)
    files.push_back({{"bytes", file.bytes}, {"digest", file.digest}, {"name", file.name}});
  return DumpPython(Json{{"files", std::move(files)},
                         {"schema", kSchema},
                         {"summary", manifest.summary},
                         {"version", kVersion}}) +
         "\n";
}

Result<Manifest> ParseManifest(std::string_view json_text, const std::string& path) {
  const Result<Json> json = ParseJson(json_text);
  if (!json.ok()) return Error(json.error()).in(path);
  Result<Manifest> manifest = Parse(*json);
  if (!manifest.ok()) return std::move(manifest).error().in(path);
  return manifest;
}

Result<std::string> DigestFile(const std::string& path, const std::function<Status()>& poll) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  Sha256 digest;
  std::vector<std::byte> block;
  for (uint64_t done = 0; done < file.bytes(); done += block.size()) {
    if (poll) NXDKIT_TRY(poll());
    block.resize(std::min<uint64_t>(kBlock, file.bytes() - done));
    NXDKIT_TRY(file.ReadAt(done, block));
    digest.Update(block);
  }
  return "sha256:" + HexText(digest.Finish());
}

}  // namespace nxdkit::neff
