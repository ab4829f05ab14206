// PRIVATE: the zip form, torch 1.6 to 2.x: <name>/data.pkl, <name>/data/<key>, <name>/version, ...
#pragma once

#include <memory>

#include "formats/torch/archive.h"
#include "lib/system/file.h"

namespace nxdkit::torch {

// ReadArchive of such a file; errors lack the path.
Result<Archive> ReadZipArchive(std::shared_ptr<const File> file, const ReadOptions& options);

}  // namespace nxdkit::torch
