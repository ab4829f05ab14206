// PRIVATE: the small files of an entry of a vLLM Neuron tree: marker, metadata, command. Facts:
// FORMAT.md, read from source, not run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compile_cache/verify_entry.h"
#include "formats/neff/header.h"
#include "lib/base/error.h"

namespace nxdkit::neff {

struct LiteMarker {
  double completed = 0;  // unix seconds
  uint64_t neff_bytes = 0;
  std::optional<int64_t> rank;
};
// "completed:<float>", "neff_size:<bytes>", and "completed_by_rank:<n>" where the run was
// distributed. kCorrupt with the offset of the line.
Result<LiteMarker> ParseLiteMarker(std::string_view text);

// Faults of .artifact_metadata_v0.json of the entry `key`, one line each. kCorrupt for anything but
// a JSON object.
Result<std::vector<std::string>> MetadataFaults(std::string_view text, std::string_view key);

// Contradictions between command.txt and the NEFF: the target and the number of logical cores, as
// far as a header has them, and the name of the NEFF. Remarks where nothing is contradicted: the
// engine does not read the file. `file` is empty in the results.
std::vector<EntryFault> CommandFaults(const std::string& text, std::string_view key,
                                      const std::optional<Header>& neff);

}  // namespace nxdkit::neff
