// Writes the metadata that metadata.h reads.
#pragma once

#include <string>

#include "formats/dcp/metadata.h"

namespace nxdkit::dcp {

// A pickle of protocol 2 that torch 2.3 and newer load. It records nothing about where, when and by
// whom it was written. Same metadata, same bytes.
Result<std::string> WriteMetadata(const Metadata& metadata);

}  // namespace nxdkit::dcp
