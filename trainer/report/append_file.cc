#include "trainer/report/append_file.h"

#include <cerrno>
#include <span>

#include "lib/system/folders.h"
#include "lib/system/staging.h"

namespace nxdkit::trainer {

Result<AppendFile> AppendFile::Begin(const std::string& path, const Fill& fill) {
  NXDKIT_ASSIGN(const bool is_folder, IsFolder(path));
  if (is_folder) return OutputError("replace", EISDIR).in(path);
  NXDKIT_ASSIGN(Staging staging, Staging::Begin(path, {.replace = true, .folder = false}));
  AppendFile result;
  NXDKIT_ASSIGN(result.file_, File::OpenWrite(staging.path()));
  NXDKIT_TRY(fill(result));
  NXDKIT_TRY(result.Sync());
  NXDKIT_TRY(staging.Publish());
  // The same file under its own name, for messages.
  NXDKIT_ASSIGN(result.file_, File::OpenWrite(path));
  return result;
}

Result<AppendFile> AppendFile::Begin(const std::string& path, std::string_view contents) {
  return Begin(path, [&](AppendFile& file) { return file.Append(contents); });
}

Result<AppendFile> AppendFile::Open(const std::string& path) {
  AppendFile result;
  NXDKIT_ASSIGN(const File now, File::OpenRead(path));
  result.end_ = now.bytes();
  NXDKIT_ASSIGN(result.file_, File::OpenWrite(path));
  return result;
}

Status AppendFile::Append(std::string_view piece) {
  NXDKIT_TRY(file_.WriteAt(end_, std::as_bytes(std::span(piece))));
  end_ += piece.size();
  return OkStatus();
}

}  // namespace nxdkit::trainer
