#include "trainer/report/append_file.h"

#include <span>

namespace nxdkit::trainer {

Result<AppendFile> AppendFile::Begin(const std::string& path, std::string_view contents) {
  NXDKIT_TRY(WriteFileAtomic(path, contents));
  AppendFile result;
  NXDKIT_ASSIGN(result.file_, File::OpenWrite(path));
  result.end_ = contents.size();
  return result;
}

Status AppendFile::Append(std::string_view piece) {
  NXDKIT_TRY(file_.WriteAt(end_, std::as_bytes(std::span(piece))));
  end_ += piece.size();
  return OkStatus();
}

}  // namespace nxdkit::trainer
