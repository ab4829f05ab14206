#include "lib/copy_file.h"

#include <algorithm>

#include "lib/file.h"
#include "lib/page_buffer.h"

namespace nxdkit {

Status CopyFile(const std::string& from, const std::string& to, bool sync) {
  NXDKIT_ASSIGN(const File source, File::OpenRead(from));
  NXDKIT_ASSIGN(File target, File::OpenWrite(to));
  NXDKIT_TRY(target.Allocate(source.bytes()));
  const PageBuffer buffer(std::min<uint64_t>(source.bytes(), 1 << 20));
  for (uint64_t at = 0; at < source.bytes(); at += buffer.span().size()) {
    const std::span<std::byte> part =
        buffer.span().first(std::min<uint64_t>(buffer.span().size(), source.bytes() - at));
    NXDKIT_TRY(source.ReadAt(at, part));
    NXDKIT_TRY(target.WriteAt(at, part));
  }
  if (sync) NXDKIT_TRY(target.Sync());
  return target.Close();
}

}  // namespace nxdkit
