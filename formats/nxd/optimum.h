// optimum-neuron's training checkpoints, as we write them: a folder checkpoint-N with config,
// tokenizer and trn_config.json, and inside it the tag `shards` with mp_metadata_pp_rank_P.json,
// from which its `consolidate` makes a Hugging Face model again. Facts: FORMAT.md.
#pragma once

#include <span>
#include <string>

#include "formats/nxd/nxd_layout.h"
#include "lib/base/error.h"

namespace nxdkit::nxd {

inline constexpr char kOptimumTag[] = "shards";
inline constexpr char kTrnConfigFile[] = "trn_config.json";

// The q/k/v style of its module at this size: `wanted` where there is a choice, kSeparate when
// nothing is wanted and it is possible.
QkvStyle OptimumQkv(const models::ModelConfig& config, const Geometry& geometry, bool fuse_qkv);

// Checks that its trainer has a module with this storage layout. kUnsupported with the reason.
Status CheckOptimum(const models::ModelConfig& config, const Geometry& geometry);

std::string MpMetadataName(int pp_rank);  // "mp_metadata_pp_rank_3.json"

// The file of pipeline rank `pp_rank`; `tensors`: tensor parallel rank 0's on it.
std::string WriteMpMetadata(const models::ModelConfig& config, const Geometry& geometry,
                            int pp_rank, std::span<const RankTensor> tensors);

// trn_config.json: the settings of `source_text` (a checkpoint's trn_config.json, or ""), with the
// sizes of this one. A text that is not a JSON object is ignored.
std::string WriteTrnConfig(const Geometry& geometry, bool xser, const std::string& source_text);

}  // namespace nxdkit::nxd
