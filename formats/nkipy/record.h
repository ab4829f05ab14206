// PRIVATE to formats: nxdkit.json next to the rank files of vLLM with NKIPy, our writer's record of
// them. The format itself has no metadata, and the engine ignores this file.
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

// `source_digest`: the model's, "sha256:..."; "" when unknown.
std::string RecordText(const Geometry& geometry, const models::Family& family, Dtype dtype,
                       const std::vector<RecordedFile>& files, const std::string& source_digest);

// Checks `found`, the rank files of the folder in order, against the record `json_text` from
// `path`. kCorrupt, naming the file, with bytes or names as found and expected; kUnsupported for
// another version of the record. A record of another format is ignored.
Status CheckRecord(std::string_view json_text, const std::string& path,
                   const std::vector<RecordedFile>& found);

}  // namespace nxdkit::nkipy
