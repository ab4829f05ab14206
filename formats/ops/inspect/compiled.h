// PRIVATE to formats/ops/inspect: compiled graphs: NEFFs, the archives that contain them, and the
// cache that keeps them.
#pragma once

#include "formats/ops/inspect/inspect.h"

namespace nxdkit::ops {

// A NEFF in a file of its own.
Result<bool> LooksLikeNeff(const std::string& path);
Status InspectNeff(Inspection& inspection, const InspectRequest& request);

Result<bool> IsCompileCache(const std::string& path, const Looker& look);
Status InspectCache(Inspection& inspection, const InspectRequest& request);

// An archive with a program: its records are listed, and the compiled graphs in them found by their
// headers; its code is not read.
Status InspectProgram(Inspection& inspection, const InspectRequest& request);

// Reads the headers of the NEFFs in the survey's blobs. A blob that cannot be read is a warning.
Status AddBlobs(Inspection& inspection, const InspectRequest& request);

}  // namespace nxdkit::ops
