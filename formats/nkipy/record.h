// PRIVATE to formats: nxdkit.json beside the rank files of vLLM with NKIPy, what our writer records
// of them. Their own format says nothing of itself, and the engine passes the file over.
#pragma once

#include <string>

#include "formats/models/family.h"
#include "formats/nkipy/layout.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::nkipy {

inline constexpr char kRecordName[] = "nxdkit.json";

// `source_digest`: of the model, "sha256:..."; "" when it is not known.
std::string RecordText(const Geometry& geometry, const models::Family& family, Dtype dtype,
                       const std::string& source_digest);

}  // namespace nxdkit::nkipy
