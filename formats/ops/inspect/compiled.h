// PRIVATE to formats/ops/inspect: compiled graphs: NEFFs, the archives they are in, and the cache
// they are kept in.
#pragma once

#include "formats/ops/inspect/inspect.h"
#include "formats/torch/zip_reader.h"
#include "lib/system/file.h"

namespace nxdkit::ops {

// A NEFF in a file of its own.
Result<bool> LooksLikeNeff(const std::string& path);
Status InspectNeff(Inspection& inspection, const InspectRequest& request);

Status InspectCache(Inspection& inspection, const InspectRequest& request);

// The NEFFs in the stored records of an archive; `prefix` goes before the records' names. With
// `list_members` their contents are listed, not the headers alone.
Status AddNeffsOfRecords(Inspection& inspection, const File& file,
                         const torch::ZipDirectory& directory, const std::string& prefix,
                         const InspectRequest& request, bool list_members);

// The headers of the NEFFs in a bundle's blobs. A blob that cannot be read is a warning.
Status AddBlobs(Inspection& inspection, const InspectRequest& request);

}  // namespace nxdkit::ops
