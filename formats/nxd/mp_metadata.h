// mp_metadata_pp_rank_P.json: written by optimum-neuron's trainer into a tag folder for each
// pipeline rank, so that its `consolidate` can put the shards together again. It records how each
// tensor is cut, and what the layers of the model stand for. Facts: FORMAT.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/nxd/detect.h"
#include "lib/base/error.h"
#include "lib/system/looker.h"

namespace nxdkit::nxd {

// How one stored tensor of a rank is cut.
struct MpParameter {
  std::string name;
  bool parallel = false;   // otherwise whole on every rank
  int64_t dim = 0;         // the dimension that is cut
  int64_t partitions = 1;  // the number of parts
};

// The file of one pipeline rank.
struct MpMetadata {
  std::string path;
  std::vector<MpParameter> parameters;  // in the file's order
  // The common values of all layers, where recorded.
  std::optional<int64_t> tp, heads, kv_heads, kv_multiplier;
  std::optional<bool> fuse_qkv;
};

// kCorrupt naming the key, found and expected, also for layers that contradict each other;
// kUnsupported for a layer that stands for something unknown here.
Result<MpMetadata> ParseMpMetadata(std::string_view json_text, const std::string& path);

// The files of all pipeline ranks.
struct MpRecord {
  std::vector<std::optional<MpMetadata>> ranks;  // by pp rank; nullopt: the file is missing
  Claims claims;                                 // its origin is the first file's name
  std::vector<std::string> warnings;
};

// nullopt when the folder has none. kCorrupt when the files contradict each other, or one is for a
// pipeline rank that the set lacks.
Result<std::optional<MpRecord>> ReadMpRecord(const std::string& tag_folder, int pp,
                                             const Looker& look = {});

// kCorrupt when the record is for a model with other heads.
Status CheckMpHeads(const MpRecord& record, const models::ModelConfig& config);

}  // namespace nxdkit::nxd
