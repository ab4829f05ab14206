#include "formats/torch/archive.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "formats/torch/archive_readers.h"

namespace nxdkit::torch {
namespace {

constexpr std::string_view kZipMagic("PK\3\4", 4);
constexpr std::string_view kEmptyZipMagic("PK\5\6", 4);
constexpr uint64_t kTarMagicOffset = 257;
constexpr std::string_view kTarMagic = "ustar";

// The start of the file, up to `bytes`.
Result<std::string> ReadStart(const File& file, uint64_t bytes) {
  std::string start(static_cast<size_t>(std::min(bytes, file.bytes())), '\0');
  NXDKIT_TRY(file.ReadAt(0, std::as_writable_bytes(std::span(start))));
  return start;
}

// PROTO and a protocol number: every pickle of protocol 2 or newer.
bool StartsLikePickle(std::string_view start) {
  return start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5;
}

Error NotAnArchive(std::string_view start) {
  if (start.empty()) return Error(Errc::kCorrupt, "the file is empty").at(0);
  if (start.starts_with(kEmptyZipMagic))
    return Error(Errc::kCorrupt, "a zip archive without any record").at(0);
  if (start.size() >= kTarMagicOffset + kTarMagic.size() &&
      start.substr(kTarMagicOffset, kTarMagic.size()) == kTarMagic)
    return Error(Errc::kUnsupported, "a tar archive, as torch wrote them before version 0.1.10")
        .at(kTarMagicOffset)
        .hint("load it with a torch of today, and save it again");
  std::string bytes;
  for (const char c : start.substr(0, 8))
    bytes += fmt::format("{}{:02x}", bytes.empty() ? "" : " ", static_cast<unsigned char>(c));
  return Error(Errc::kUnsupported,
               fmt::format("not a torch archive: the file starts with the bytes {}, neither a zip "
                           "archive (50 4b 03 04) nor a pickle (80 02)",
                           bytes))
      .at(0);
}

Result<Archive> ReadAny(std::shared_ptr<const File> file, const ReadOptions& options) {
  const Result<std::string> start = ReadStart(*file, 512);
  if (!start.ok()) return start.error();
  if (start->starts_with(kZipMagic)) return ReadZipArchive(std::move(file), options);
  if (StartsLikePickle(*start)) return ReadLegacyArchive(std::move(file));
  return NotAnArchive(*start);
}

}  // namespace

bool LooksLikeArchive(const std::string& path) {
  Result<File> file = File::OpenRead(path);
  if (!file.ok()) return false;
  const Result<std::string> start = ReadStart(*file, kZipMagic.size());
  return start.ok() && (start->starts_with(kZipMagic) || StartsLikePickle(*start));
}

Result<Archive> ReadArchive(const std::string& path, const ReadOptions& options) {
  NXDKIT_ASSIGN(File opened, File::OpenRead(path));
  auto file = std::make_shared<const File>(std::move(opened));  // shared by all its storages
  Result<Archive> archive = ReadAny(file, options);
  if (!archive.ok()) return std::move(archive).error().in(path);
  archive->path = path;
  archive->file_bytes = file->bytes();
  return archive;
}

}  // namespace nxdkit::torch
