// PRIVATE: the zip form, torch 1.6 to 2.x: <name>/data.pkl, <name>/data/<key>, <name>/version, ...
#pragma once

#include "formats/torch/archive.h"
#include "formats/torch/zip_record.h"

namespace nxdkit::torch {

// ReadArchive of the zip archive at `place`; errors lack the path.
Result<Archive> ReadZipArchive(const ArchivePlace& place, const ReadOptions& options);

}  // namespace nxdkit::torch
