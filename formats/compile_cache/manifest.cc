#include "formats/compile_cache/manifest.h"

#include "lib/base/errors.h"
#include "lib/hash/hash_file.h"
#include "lib/json/json.h"

namespace nxdkit::neff {
namespace {

constexpr char kSchema[] = "nxdkit-cache-entry";
constexpr int64_t kVersion = 1;
constexpr size_t kMaxFiles = 1000;
constexpr uint64_t kMaxManifestBytes = 1 << 20;
constexpr char kCompileSeconds[] = "compile_seconds";
constexpr double kMostSeconds = 1e9;  // 30 years: longer than any compilation

Result<ManifestFile> ParseFile(const Json& json) {
  ManifestFile file;
  NXDKIT_ASSIGN(file.name, JsonString(json, "name"));
  NXDKIT_ASSIGN(const int64_t bytes, JsonInt(json, "bytes"));
  NXDKIT_ASSIGN(file.digest, JsonString(json, "digest"));
  if (file.name.empty() || file.name == "." || file.name == ".." ||
      file.name.find('/') != std::string::npos)
    return Corrupt("found \"{}\", expected the name of a file of the entry", file.name)
        .member("name");
  if (bytes < 0) return Corrupt("found {}, expected a size", bytes).member("bytes");
  file.bytes = static_cast<uint64_t>(bytes);
  return file;
}

// Entries made before this was recorded have none.
Result<std::optional<double>> ParseSeconds(const Json& json) {
  const Json* found = JsonFind(json, kCompileSeconds);
  if (found == nullptr) return std::optional<double>();
  const double seconds = found->is_number() ? found->get<double>() : -1;
  if (!(seconds >= 0 && seconds <= kMostSeconds))
    return Corrupt("found {}, expected seconds", JsonExcerpt(*found)).member(kCompileSeconds);
  return std::optional(seconds);
}

Result<Manifest> Parse(const Json& json) {
  Manifest manifest;
  NXDKIT_ASSIGN(const std::string schema, JsonString(json, "schema"));
  NXDKIT_ASSIGN(const int64_t version, JsonInt(json, "version"));
  if (schema != kSchema)
    return Corrupt("found \"{}\", expected \"{}\"", schema, kSchema).member("schema");
  if (version != kVersion)
    return Unsupported("version {} found, this program knows {}", version, kVersion)
        .member("version");
  NXDKIT_ASSIGN(manifest.summary, JsonString(json, "summary"));
  NXDKIT_ASSIGN(manifest.compile_seconds, ParseSeconds(json));
  const Json* files = JsonFind(json, "files");
  if (files == nullptr || !files->is_array() || files->size() > kMaxFiles)
    return Corrupt("found {}, expected an array of at most {} files",
                   files ? JsonExcerpt(*files) : "nothing", kMaxFiles)
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
  Json json = {{"files", std::move(files)},
               {"schema", kSchema},
               {"summary", manifest.summary},
               {"version", kVersion}};
  if (manifest.compile_seconds) json[kCompileSeconds] = *manifest.compile_seconds;
  return DumpPython(json) + "\n";
}

Result<Manifest> ReadManifest(const std::string& path) {
  NXDKIT_ASSIGN(const Json json, ReadJsonFile(path, kMaxManifestBytes));
  return Parse(json).in(path);
}

Result<std::string> DigestFile(const std::string& path, const std::function<Status()>& poll) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  NXDKIT_ASSIGN(const Sha256Bytes digest, HashFile<Sha256Bytes>(file, 0, file.bytes(), poll));
  return "sha256:" + HexText(digest);
}

}  // namespace nxdkit::neff
