// The end of a zip file: where its central directory lies.
#pragma once

#include <cstdint>

#include "lib/base/error.h"
#include "lib/system/file.h"

namespace nxdkit::torch {

struct ZipEnd {
  uint64_t entries = 0;
  uint64_t directory_bytes = 0;
  uint64_t directory_offset = 0;  // from the start of the file
};

// Finds the end record (and the zip64 one, if there is one), and checks that the directory lies
// before it and has bytes enough for its entries. Bytes after the end record are allowed, as
// torch allows them, within the last 64 KiB + 22 of the file.
Result<ZipEnd> ReadZipEnd(const File& file);

}  // namespace nxdkit::torch
