// The two readers behind ReadArchive. Errors lack the path: ReadArchive adds it.
#pragma once

#include <cstdint>
#include <memory>

#include "formats/torch/archive.h"
#include "lib/base/error.h"
#include "lib/system/file.h"

namespace nxdkit::torch {

// Structure is read into memory; this bounds it. A real pickle has some 250 bytes per tensor.
inline constexpr uint64_t kMaxPickleBytes = 256 << 20;

Result<Archive> ReadZipArchive(std::shared_ptr<const File> file, const ReadOptions& options);
Result<Archive> ReadLegacyArchive(std::shared_ptr<const File> file);

}  // namespace nxdkit::torch
