// PRIVATE to formats: nxdkit.json beside the rank files of vLLM with NKIPy, what our writer records
// of them. Their own format says nothing of itself, and the engine passes the file over.
#pragma once

#include <string>
#include <vector>

#include "formats/models/family.h"
#include "formats/nkipy/layout.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::nkipy {

inline constexpr char kRecordName[] = "nxdkit.json";
inline constexpr uint64_t kMaxRecordBytes = 4 << 20;

struct RecordedFile {
  std::string name;
  uint64_t bytes = 0;
};

// `source_digest`: of the model, "sha256:..."; "" when it is not known.
std::string RecordText(const Geometry& geometry, const models::Family& family, Dtype dtype,
                       const std::vector<RecordedFile>& files, const std::string& source_digest);

// Holds `found`, the rank files of the folder in their order, against the record `json_text` of
// `path`. kCorrupt, naming the file, with bytes or names as found and expected; kUnsupported for
// another version of the record. The record of another format is not looked at.
Status CheckRecord(std::string_view json_text, const std::string& path,
                   const std::vector<RecordedFile>& found);

}  // namespace nxdkit::nkipy
