// The metadata of a PyTorch distributed checkpoint (DCP): the file `.metadata`, one pickle that
// names every tensor, how it is cut into chunks, and where each chunk is stored. Format facts:
// FORMAT.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/torch/pickle_value.h"
#include "lib/plan/layout.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::dcp {

inline constexpr char kMetadataFile[] = ".metadata";
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{256} << 20;

// The place of an item: a whole torch archive inside a file.
struct ItemPlace {
  std::string file;  // relative to the folder: "__0_0.distcp"
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool zstd = false;  // the item is the archive as zstd frames
  bool operator==(const ItemPlace&) const = default;
};

// A box of a tensor, stored as an item of its own.
struct Chunk {
  Box box;
  ItemPlace place;
};

struct TensorEntry {
  std::string key;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  // None is empty, and together they cover the tensor. Disjoint, except for copies: the same box
  // again, saved by several ranks.
  std::vector<Chunk> chunks;
};

// Any other saved value: a pickled object in an archive.
struct ObjectEntry {
  std::string key;
  ItemPlace place;
  // For an object that is a part of a larger one, and has no archive of its own.
  std::optional<torch::PickleValue> value = std::nullopt;
};

struct Metadata {
  std::vector<TensorEntry> tensors;  // in the file's order
  std::vector<ObjectEntry> objects;
  // planner_data: for a key, the tuple of names and numbers that it was made from. The usual paths,
  // such as TorchTitan's, are left out: the key as one name, with "optimizer", "lr_scheduler" and
  // "train_state" as names of their own in front of the rest.
  std::map<std::string, torch::PickleValue> paths;

  torch::PickleValue PathOf(const std::string& key) const;
  void SetPath(const std::string& key, torch::PickleValue path);
};

// Parses and checks the pickle. kUnsupported naming a global that is not on the list, or an unknown
// kind of item; kCorrupt naming the key for boxes that are outside their tensor, overlap or leave a
// gap, and for chunks without a place. Whether the places are inside their files is not checked
// here. Errors have no path.
Result<Metadata> ParseMetadata(std::string_view pickle);
// ParseMetadata for one rank's own metadata: chunks may leave gaps.
Result<Metadata> ParsePartOfMetadata(std::string_view pickle);

// kCorrupt for a box that is not inside a tensor of this shape, or has another number of
// dimensions. No number is negative.
Status CheckBox(const Box& box, const Shape& shape);

// kCorrupt unless the boxes, which are inside a tensor of this shape, are disjoint except for
// copies, and cover it.
Status CheckCover(std::vector<Box> boxes, const Shape& shape);
// CheckCover for the chunks of an entry.
template <typename Entry>
Status CheckCover(const Entry& entry) {
  std::vector<Box> boxes;
  for (const auto& chunk : entry.chunks) boxes.push_back(chunk.box);
  return CheckCover(std::move(boxes), entry.shape);
}

}  // namespace nxdkit::dcp
