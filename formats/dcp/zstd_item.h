// PRIVATE: items compressed with zstd: the archive as one or several frames.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/system/file.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::dcp {

// Decompresses the archive into `to` at `at`; returns its size. kCorrupt for anything but whole
// frames, and for more than `max_bytes`; memory is bounded by zstd's largest window, 128 MiB.
Result<uint64_t> Decompress(FileView packed, uint64_t max_bytes, const File& to, uint64_t at);
Result<std::string> Decompressed(FileView packed, uint64_t max_bytes);  // Decompress in memory.

// The storage of a decompressed archive, with the item's place for messages.
std::shared_ptr<const Storage> DecompressedStorage(std::shared_ptr<const Storage> storage,
                                                   std::string path, uint64_t offset);

}  // namespace nxdkit::dcp
