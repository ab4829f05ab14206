// PRIVATE: the legacy form, torch 0.1.10 to 1.5, and
// torch.save(_use_new_zipfile_serialization=False): five pickles (magic, protocol, system, object,
// storage keys), then the storages.
#pragma once

#include <memory>

#include "formats/torch/archive.h"
#include "lib/system/file.h"

namespace nxdkit::torch {

// ReadArchive for the legacy form; errors lack the path.
Result<Archive> ReadLegacyArchive(std::shared_ptr<const File> file);

}  // namespace nxdkit::torch
