// PRIVATE: hashes of files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "lib/hash/digest.h"
#include "lib/system/file.h"
#include "lib/system/page_buffer.h"

namespace nxdkit {

// The hash, Sha256Bytes or Md5Bytes, of the bytes [offset, offset + bytes) of the file. Block by
// block: `poll` is called before each, `on_bytes` after each; either may be empty.
template <typename Bytes>
Result<Bytes> HashFile(const File& file, uint64_t offset, uint64_t bytes,
                       const std::function<Status()>& poll = {},
                       const std::function<void(uint64_t bytes)>& on_bytes = {}) {
  constexpr uint64_t kReadBytes = 256 << 10;  // stays in the second-level cache
  const PageBuffer buffer(std::min(kReadBytes, bytes));
  Hasher<Bytes> hash;
  for (uint64_t done = 0; done < bytes;) {
    if (poll) NXDKIT_TRY(poll());
    const auto part = buffer.span().first(std::min(kReadBytes, bytes - done));
    NXDKIT_TRY(file.ReadAt(offset + done, part));
    hash.Update(part);
    done += part.size();
    if (on_bytes) on_bytes(part.size());
  }
  return hash.Finish();
}

}  // namespace nxdkit
