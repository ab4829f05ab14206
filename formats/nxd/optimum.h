// optimum-neuron's training checkpoints, as we write them: a folder checkpoint-N with config,
// tokenizer and trn_config.json, and in it the tag `shards` with mp_metadata_pp_rank_P.json, from
// which its `consolidate` makes a Hugging Face model again. Facts: FORMAT.md beside this file.
#pragma once

#include <span>
#include <string>

#include "formats/nxd/nxd_layout.h"
#include "lib/base/error.h"

namespace nxdkit::nxd {

inline constexpr char kOptimumTag[] = "shards";
inline constexpr char kTrnConfigFile[] = "trn_config.json";

// The q/k/v style that its module has at this size: `wanted` where it leaves a choice, kSeparate
// when nothing is wanted and it could be.
QkvStyle OptimumQkv(const models::ModelConfig& config, const Geometry& geometry, bool fuse_qkv);

// Whether its trainer has a module that stores this model so. kUnsupported with the reason.
Status CheckOptimum(const models::ModelConfig& config, const Geometry& geometry);

std::string MpMetadataName(int pp_rank);  // "mp_metadata_pp_rank_3.json"

// The file of pipeline rank `pp_rank`; `tensors`: those of tensor parallel rank 0 on it.
std::string WriteMpMetadata(const models::ModelConfig& config, const Geometry& geometry,
                            int pp_rank, std::span<const RankTensor> tensors);

// trn_config.json: the settings of `source_text` (that of a checkpoint, or ""), and the sizes of
// this one. A text that is no JSON object counts for nothing.
std::string WriteTrnConfig(const Geometry& geometry, bool xser, const std::string& source_text);

}  // namespace nxdkit::nxd
