// What a PyTorch distributed checkpoint (DCP) says of itself: the file `.metadata`, one pickle that
// names every tensor, how it is cut into chunks, and where each chunk lies. Format facts: FORMAT.md
// beside this file.
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

// Where one item lies: a whole torch archive inside a file.
struct ItemPlace {
  std::string file;  // relative to the folder: "__0_0.distcp"
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool zstd = false;  // the bytes are the archive as frames of zstd
  bool operator==(const ItemPlace&) const = default;
};

// A box of a tensor that is an item of its own.
struct Chunk {
  Box box;
  ItemPlace place;
};

struct TensorEntry {
  std::string key;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  // None empty; together they are the tensor. Disjoint, but for copies: the same box again, where
  // several ranks saved it.
  std::vector<Chunk> chunks;
};

// Anything else that was saved: a pickled object in an archive.
struct ObjectEntry {
  std::string key;
  ItemPlace place;
  // Of an object that is a part of a larger one, and has no archive of its own.
  std::optional<torch::PickleValue> value = std::nullopt;
};

struct Metadata {
  std::vector<TensorEntry> tensors;  // in the file's order
  std::vector<ObjectEntry> objects;
  // planner_data: of a key, the tuple of names and numbers that it was made of. The usual ones, as
  // TorchTitan's are, are not here: a key is one name, but "optimizer", "lr_scheduler" and
  // "train_state" are names of their own before the rest.
  std::map<std::string, torch::PickleValue> paths;

  torch::PickleValue PathOf(const std::string& key) const;
  void SetPath(const std::string& key, torch::PickleValue path);
};

// Parses and checks the pickle. kUnsupported naming a global that is not on the list, or a kind of
// item that is not known; kCorrupt naming the key for boxes that are outside of their tensor,
// overlap or leave a gap, and for chunks without a place. Whether the places are in their files is
// not known here. Errors have no path.
Result<Metadata> ParseMetadata(std::string_view pickle);
// The same of what one rank says of what it has saved by itself: chunks may leave gaps.
Result<Metadata> ParsePartOfMetadata(std::string_view pickle);

// kCorrupt for a box that is not inside of a tensor of this shape, of as many dimensions. No number
// is negative.
Status CheckBox(const Box& box, const Shape& shape);

// Boxes that are inside of a tensor of this shape are disjoint, but for copies, and cover it.
Status CheckCover(std::vector<Box> boxes, const Shape& shape);
// The same of the chunks of an entry.
template <typename Entry>
Status CheckCover(const Entry& entry) {
  std::vector<Box> boxes;
  for (const auto& chunk : entry.chunks) boxes.push_back(chunk.box);
  return CheckCover(std::move(boxes), entry.shape);
}

}  // namespace nxdkit::dcp
