// PRIVATE: the metadata of a torch_checkpointing folder: the file `metadata.pkl`, one pickle of
// plain containers that describes how the tensors of each rank's file are parts of whole ones.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/dtensor/sharding.h"
#include "formats/dtensor/value_path.h"
#include "formats/torch/pickle_value.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::dcp {

using dtensor::LocalShard;
using dtensor::Part;
using dtensor::Sharding;
using dtensor::ValuePath;

inline constexpr char kRankMetadataFile[] = "metadata.pkl";

// The distribution of one tensor over some ranks.
struct ShardGroup {
  std::shared_ptr<const std::vector<int64_t>> ranks;  // sorted, each once
  Dtype dtype = Dtype::kF32;
  Shape shape;  // of the whole tensor
  // A DTensor: the mesh's ranks in order, and the placements on it. Otherwise the parts are given.
  std::shared_ptr<const std::map<int64_t, int64_t>> places;  // in the mesh, by rank; null: parts
  Sharding sharding;
  std::shared_ptr<const std::vector<Part>> parts;  // may be shared by many tensors; null: a mesh

  // The part of this rank, one of `ranks`. Without `shape` where the parts are given: the rank's
  // tensor may be larger than the parts.
  Result<LocalShard> Of(int64_t rank) const;
};

struct RankedTensor {
  ValuePath path;
  std::vector<ShardGroup> groups;  // of different ranks
};

struct RankedFile {
  std::string name;
  bool safetensors = false;  // else a torch archive
};

struct RankedItem {
  std::string name;
  std::vector<RankedTensor> tensors;
  std::map<int64_t, RankedFile> files;  // for ranks whose file does not have the usual name
};

struct RankMetadata {
  int64_t world_size = 0;
  std::vector<RankedItem> items;
};

std::string RankFileName(const std::string& item, int64_t rank);  // "model_3.pt"

// Versions 1.0 and 2.0. kUnsupported naming any global (none is needed), or another version, kind
// of sharding, placement or file; kCorrupt for contradictions. Errors have no path.
Result<RankMetadata> ParseRankMetadata(std::string_view pickle);

}  // namespace nxdkit::dcp
