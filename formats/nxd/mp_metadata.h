// mp_metadata_pp_rank_P.json: what optimum-neuron's trainer leaves in a tag folder for each
// pipeline rank, so that its `consolidate` can put the shards together again. It says how each
// tensor is cut, and what the layers of its model stand for. Facts: FORMAT.md beside this file.
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
  bool parallel = false;   // else whole on every rank
  int64_t dim = 0;         // along which it is cut
  int64_t partitions = 1;  // into so many parts
};

// The file of one pipeline rank.
struct MpMetadata {
  std::string path;
  std::vector<MpParameter> parameters;  // in the file's order
  // What all its layers say, where they say it.
  std::optional<int64_t> tp, heads, kv_heads, kv_multiplier;
  std::optional<bool> fuse_qkv;
};

// kCorrupt naming the key, found and expected, also for layers that contradict each other;
// kUnsupported for a layer that stands for something this program does not know.
Result<MpMetadata> ParseMpMetadata(std::string_view json_text, const std::string& path);

// The files of all pipeline ranks.
struct MpRecord {
  std::vector<std::optional<MpMetadata>> ranks;  // by pp rank; nullopt: the file is missing
  Claims claims;                                 // its origin is the first file's name
  std::vector<std::string> warnings;
};

// nullopt when the folder has none. kCorrupt when the files contradict each other, or one is of a
// pipeline rank that the set lacks.
Result<std::optional<MpRecord>> ReadMpRecord(const std::string& tag_folder, int pp,
                                             const Looker& look = {});

// kCorrupt when the record is of a model with other heads.
Status CheckMpHeads(const MpRecord& record, const models::ModelConfig& config);

}  // namespace nxdkit::nxd
