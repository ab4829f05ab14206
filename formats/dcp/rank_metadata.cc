#include "formats/dcp/rank_metadata.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "formats/dcp/folder_files.h"
#include "formats/dcp/metadata.h"
#include "formats/torch/bare_pickle.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json_parse.h"

namespace nxdkit::dcp {

using dtensor::CheckSharding;
using dtensor::Placement;
using dtensor::ShardAt;

namespace {

using torch::PickleDict;
using torch::PickleList;
using torch::PickleValue;

constexpr int64_t kMaxWorld = 100'000;
constexpr size_t kMaxDims = 64;
constexpr size_t kMaxPathText = 1 << 16;
constexpr int kPathDepth = 2;  // a list of strings and numbers
// The numbers and letters kept from a file may exceed its bytes by this many. In a file written by
// torch_checkpointing each takes a byte or more, except for short lists that are shared; a file
// that shares long lists would use much memory for few bytes.
constexpr uint64_t kFreeNumbers = 1 << 18;

// The pickle has builtins only, so no global at all.
const torch::GlobalTable& NoGlobals() {
  static const torch::GlobalTable table(
      {}, "that metadata.pkl needs: there are none",
      "another program than torch_checkpointing may have written it; nothing of it is loaded");
  return table;  // constant
}

bool IsNone(const PickleValue* value) {
  return !value || std::holds_alternative<PickleValue::None>(value->value);
}

Result<const PickleDict*> DictIn(const PickleValue& in, std::string_view key) {
  const PickleValue* value = in.Find(key);
  if (!value || !value->dict()) return Corrupt("{} is missing, or not a dict", key);
  return value->dict();
}

Result<const PickleList*> ListIn(const PickleValue& in, std::string_view key) {
  const PickleValue* value = in.Find(key);
  if (!value || !value->list()) return Corrupt("{} is missing, or not a list", key);
  return value->list();
}

Result<std::string> TextIn(const PickleValue& in, std::string_view key) {
  const PickleValue* value = in.Find(key);
  if (!value || !value->string()) return Corrupt("{} is missing, or not a string", key);
  return *value->string();
}

Result<int64_t> NumberIn(const PickleValue& in, std::string_view key) {
  const PickleValue* value = in.Find(key);
  if (!value || !value->integer()) return Corrupt("{} is missing, or not a number", key);
  return *value->integer();
}

Result<Shape> NumbersIn(const PickleList& list, std::string_view what, size_t most) {
  if (list.size() > most)
    return Unsupported("{} has {} numbers, the limit is {}", what, list.size(), most);
  Shape out;
  out.reserve(list.size());
  for (const PickleValue& item : list) {
    if (!item.integer() || *item.integer() < 0)
      return Corrupt("{} is not a list of numbers from 0 on", what);
    out.push_back(*item.integer());
  }
  return out;
}

Result<Shape> NumbersUnder(const PickleValue& in, std::string_view key, size_t most) {
  NXDKIT_ASSIGN(const PickleList* list, ListIn(in, key));
  return NumbersIn(*list, key, most);
}

Result<Dtype> DtypeIn(const PickleValue& in) {
  constexpr std::string_view kPrefix = "torch.";
  NXDKIT_ASSIGN(const std::string text, TextIn(in, "dtype"));
  const auto dtype = text.starts_with(kPrefix)
                         ? DtypeFromTorchName(std::string_view(text).substr(kPrefix.size()))
                         : std::nullopt;
  if (!dtype || ElementBytes(*dtype) == 0)
    return Unsupported("elements of {}", EscapeControl(text.substr(0, 40)));
  return *dtype;
}

// '["layers.0.w",1]'
Result<ValuePath> ParsePath(const std::string& text) {
  if (text.size() > kMaxPathText)
    return Unsupported("a path of {} bytes, the limit is {}", text.size(), kMaxPathText);
  Result<Json> json = ParseJson(text, {.max_depth = kPathDepth});
  if (!json.ok() || !json->is_array())
    return Corrupt("the path {} is not a list", EscapeControl(text.substr(0, 80)));
  ValuePath path;
  for (const Json& part : *json) {
    if (part.is_string())
      path.parts.emplace_back(part.get<std::string>());
    else if (part.is_number_integer())
      path.parts.emplace_back(part.get<int64_t>());
    else
      return Corrupt("the path {} has parts other than strings and numbers",
                     EscapeControl(text.substr(0, 80)));
  }
  return path;
}

Result<Placement> ParsePlacement(const PickleValue& value) {
  NXDKIT_ASSIGN(const std::string type, TextIn(value, "type"));
  Placement out;
  if (type == "Replicate") return out;
  if (type != "Shard" && type != "StridedShard")
    return Unsupported("a placement {}, expected Shard, StridedShard or Replicate",
                       EscapeControl(type.substr(0, 40)));
  out.kind = Placement::Kind::kShard;
  NXDKIT_ASSIGN(out.dim, NumberIn(value, "dim"));
  if (type == "Shard") return out;
  out.kind = Placement::Kind::kStridedShard;
  NXDKIT_ASSIGN(out.split_factor, NumberIn(value, "split_factor"));
  return out;
}

// The boxes of a tensor that records its own placement: lists of equal length.
struct BoxLists {
  const PickleList* global = nullptr;
  const PickleList* local = nullptr;
  const PickleList* sizes = nullptr;
};

Result<BoxLists> ListsOfBoxes(const PickleValue& data) {
  BoxLists out;
  NXDKIT_ASSIGN(out.global, ListIn(data, "global_offsets"));
  NXDKIT_ASSIGN(out.local, ListIn(data, "local_offsets"));
  NXDKIT_ASSIGN(out.sizes, ListIn(data, "local_sizes"));
  const auto& [global, local, sizes] = out;
  if (global->size() == local->size() && global->size() == sizes->size()) return out;
  return Corrupt("{} global_offsets, {} local_offsets and {} local_sizes", global->size(),
                 local->size(), sizes->size());
}

Result<std::vector<Part>> ParseParts(const BoxLists& boxes, const Shape& shape) {
  std::vector<Part> parts;
  for (size_t i = 0; i < boxes.sizes->size(); ++i) {
    Shape numbers[3];
    const PickleList* lists[3] = {boxes.global, boxes.local, boxes.sizes};
    for (size_t k = 0; k < 3; ++k) {
      const PickleList* list = (*lists[k])[i].list();
      if (!list) return Corrupt("the offsets and sizes are not lists");
      NXDKIT_ASSIGN(numbers[k], NumbersIn(*list, "a shard's offsets", kMaxDims));
      if (numbers[k].size() != shape.size())
        return Corrupt("a shard has {} dimensions, the tensor {}", numbers[k].size(), shape.size());
    }
    Part part{{std::move(numbers[0]), std::move(numbers[2])}, std::move(numbers[1])};
    NXDKIT_TRY(CheckBox(part.box, shape));
    if (part.box.Volume() > 0) parts.push_back(std::move(part));
  }
  return parts;
}

class RankMetadataParser {
 public:
  explicit RankMetadataParser(uint64_t bytes) : bytes_(bytes) {}

  Result<RankMetadata> Parse(const PickleValue& root) {
    if (!root.dict()) return Corrupt("the pickle is not a dict");
    NXDKIT_ASSIGN(out_.world_size, NumberIn(root, "world_size"));
    if (out_.world_size < 1 || out_.world_size > kMaxWorld)
      return Unsupported("a world_size of {}, expected 1 to {}", out_.world_size, kMaxWorld);
    std::string version = "1.0";  // what its own reader assumes
    if (root.Find("version")) NXDKIT_TRY(TextIn(root, "version").To(version));
    if (version == "2.0") {
      NXDKIT_TRY(ParseItems(root));
    } else if (version == "1.0") {
      NXDKIT_TRY(ParsePaths(root));
    } else {
      return Unsupported("version \"{}\", expected 1.0 or 2.0",
                         EscapeControl(version.substr(0, 40)));
    }
    NXDKIT_TRY(CheckFiles());
    return std::move(out_);
  }

 private:
  // Version 2.0: keyed by item.
  Status ParseItems(const PickleValue& root) {
    NXDKIT_ASSIGN(const PickleDict* items, DictIn(root, "metadata"));
    for (const auto& [key, value] : *items) {
      if (!key.string()) return Corrupt("the name of an item is not a string");
      NXDKIT_TRY(Count(key.string()->size()));
      RankedItem& item = out_.items.emplace_back();
      item.name = *key.string();
      NXDKIT_TRY(ParseItem(value, item).on(item.name));
    }
    return OkStatus();
  }

  Status ParseItem(const PickleValue& value, RankedItem& item) {
    NXDKIT_ASSIGN(const PickleDict* paths, DictIn(value, "nested_path_to_metadata"));
    for (const auto& [key, groups] : *paths) {
      NXDKIT_ASSIGN(ValuePath path, PathOf(key));
      NXDKIT_TRY(AddTensor(item, std::move(path), groups));
    }
    NXDKIT_ASSIGN(const PickleDict* layouts, DictIn(value, "rank_to_layout_info"));
    std::set<int64_t> ranks;
    for (const auto& [key, layout] : *layouts) {
      NXDKIT_ASSIGN(const int64_t rank, RankOf(key));
      if (!ranks.insert(rank).second) return Corrupt("rank {} has two layouts", rank);
      NXDKIT_TRY(AddFile(item, rank, layout).rank(rank));
    }
    return CheckRanks(ranks);
  }

  // Version 1.0: keyed by path, which begins with the item; layouts by rank, then item.
  Status ParsePaths(const PickleValue& root) {
    NXDKIT_ASSIGN(const PickleDict* paths, DictIn(root, "metadata"));
    for (const auto& [key, groups] : *paths) {
      NXDKIT_ASSIGN(ValuePath path, PathOf(key));
      const auto* name = path.parts.empty() ? nullptr : std::get_if<std::string>(&path.parts[0]);
      if (!name)
        return Corrupt("the path {} does not begin with an item",
                       EscapeControl(key.string()->substr(0, 80)));
      RankedItem& item = ItemOf(*name);
      path.parts.erase(path.parts.begin());
      NXDKIT_TRY(AddTensor(item, std::move(path), groups).on(item.name));
    }
    NXDKIT_ASSIGN(const PickleDict* ranks, DictIn(root, "rank_to_layout_info_mappings"));
    std::set<int64_t> seen;
    for (const auto& [key, layouts] : *ranks) {
      NXDKIT_ASSIGN(const int64_t rank, RankOf(key));
      if (!seen.insert(rank).second) return Corrupt("rank {} has two layouts", rank);
      if (!layouts.dict()) return Corrupt("the layouts of a rank are not a dict").rank(rank);
      for (const auto& [item, layout] : *layouts.dict()) {
        if (!item.string()) return Corrupt("the name of an item is not a string").rank(rank);
        NXDKIT_TRY(AddFile(ItemOf(*item.string()), rank, layout).rank(rank));
      }
    }
    return CheckRanks(seen);
  }

  // Counts the numbers kept or visited: a shared list counts once for each use.
  Status Count(uint64_t numbers) {
    counted_ += numbers;  // in memory already, so it cannot overflow
    if (counted_ <= bytes_ + kFreeNumbers) return OkStatus();
    return Unsupported(
        "the tensors and files take more than {} numbers and letters, which is more than the {} "
        "bytes have room for: lists are shared",
        bytes_ + kFreeNumbers, bytes_);
  }

  Result<ValuePath> PathOf(const PickleValue& key) {
    if (!key.string()) return Corrupt("the path of a tensor is not a string");
    NXDKIT_TRY(Count(key.string()->size()));
    return ParsePath(*key.string());
  }

  RankedItem& ItemOf(const std::string& name) {
    const auto [number, added] = items_.emplace(name, out_.items.size());
    if (added) out_.items.emplace_back().name = name;
    return out_.items[number->second];
  }

  Result<int64_t> RankOf(const PickleValue& key) const {
    std::optional<int64_t> rank;
    if (key.integer()) rank = *key.integer();
    if (key.string()) rank = ParseNumber<int64_t>(*key.string());
    if (!rank || *rank < 0 || *rank >= out_.world_size)
      return Corrupt("a rank that is not one of the {} of the world", out_.world_size);
    return *rank;
  }

  Status CheckRanks(const std::set<int64_t>& ranks) const {
    if (static_cast<int64_t>(ranks.size()) == out_.world_size) return OkStatus();
    return Corrupt("{} ranks have a layout, the world has {}", ranks.size(), out_.world_size);
  }

  Status AddFile(RankedItem& item, int64_t rank, const PickleValue& layout) {
    NXDKIT_TRY(Count(1));
    if (IsNone(&layout)) return OkStatus();
    RankedFile file;
    NXDKIT_ASSIGN(file.name, TextIn(layout, "file_path"));
    NXDKIT_TRY(Count(file.name.size()));
    NXDKIT_TRY(CheckFileName(file.name, "file_path"));
    const PickleValue* format = layout.Find("serialization_format");
    if (!format || !format->dict()) return Corrupt("serialization_format is missing");
    NXDKIT_ASSIGN(const std::string type, TextIn(*format, "type"));
    file.safetensors = type == "SafetensorsSerialization";
    if (!file.safetensors && type != "TorchSerialization")
      return Unsupported(
          "the file {} is in {}, expected TorchSerialization or SafetensorsSerialization",
          EscapeControl(file.name), EscapeControl(type.substr(0, 40)));
    item.files.emplace(rank, std::move(file));
    return OkStatus();
  }

  Status AddTensor(RankedItem& item, ValuePath path, const PickleValue& groups) {
    const std::string name = path.Text();
    RankedTensor tensor{std::move(path), {}};
    if (!groups.list()) return Corrupt("the metadata of the tensor is not a list").on(name);
    for (const PickleValue& value : *groups.list()) {
      NXDKIT_ASSIGN(ShardGroup group, ParseGroup(value).on(name));
      if (!tensor.groups.empty()) {
        const ShardGroup& first = tensor.groups.front();
        if (first.shape != group.shape || first.dtype != group.dtype)
          return Corrupt("{} {} on some ranks, {} {} on others", Name(first.dtype),
                         ShapeText(first.shape), Name(group.dtype), ShapeText(group.shape))
              .on(name);
      }
      tensor.groups.push_back(std::move(group));
    }
    item.tensors.push_back(std::move(tensor));
    return OkStatus();
  }

  // The ranks; most tensors share one list, which is read once.
  Result<std::shared_ptr<const std::vector<int64_t>>> RanksOf(const PickleList& list) {
    std::shared_ptr<const std::vector<int64_t>>& known = ranks_[&list];
    if (known) return known;
    NXDKIT_ASSIGN(Shape ranks, NumbersIn(list, "ranks", kMaxWorld));
    std::ranges::sort(ranks);
    if (std::ranges::adjacent_find(ranks) != ranks.end()) return Corrupt("ranks has a rank twice");
    if (!ranks.empty() && ranks.back() >= out_.world_size)
      return Corrupt("ranks has rank {}, the world has {}", ranks.back(), out_.world_size);
    known = std::make_shared<const std::vector<int64_t>>(std::move(ranks));
    return known;
  }

  Result<std::shared_ptr<const std::map<int64_t, int64_t>>> PlacesOf(const PickleList& list) {
    std::shared_ptr<const std::map<int64_t, int64_t>>& known = places_[&list];
    if (known) return known;
    NXDKIT_ASSIGN(const Shape ranks, NumbersIn(list, "mesh_data", kMaxWorld));
    std::map<int64_t, int64_t> places;
    for (size_t i = 0; i < ranks.size(); ++i)
      if (!places.emplace(ranks[i], static_cast<int64_t>(i)).second)
        return Corrupt("mesh_data has rank {} twice", ranks[i]);
    known = std::make_shared<const std::map<int64_t, int64_t>>(std::move(places));
    return known;
  }

  // The parts; tensors may share the lists, each of which is read once.
  Result<std::shared_ptr<const std::vector<Part>>> PartsOf(const PickleValue& data,
                                                           const Shape& shape) {
    NXDKIT_ASSIGN(const BoxLists lists, ListsOfBoxes(data));
    std::shared_ptr<const std::vector<Part>>& known =
        parts_[{lists.global, lists.local, lists.sizes, shape}];
    if (known) return known;
    NXDKIT_TRY(Count(lists.sizes->size() * (1 + 3 * shape.size())));
    NXDKIT_ASSIGN(std::vector<Part> parts, ParseParts(lists, shape));
    known = std::make_shared<const std::vector<Part>>(std::move(parts));
    return known;
  }

  Result<ShardGroup> ParseGroup(const PickleValue& value) {
    ShardGroup out;
    NXDKIT_ASSIGN(const PickleList* ranks, ListIn(value, "ranks"));
    NXDKIT_ASSIGN(out.ranks, RanksOf(*ranks));
    const PickleValue* sharding = value.Find("sharding_metadata");
    if (!sharding || !sharding->dict()) return Corrupt("sharding_metadata is missing");
    NXDKIT_ASSIGN(const std::string type, TextIn(*sharding, "type"));
    const PickleValue* data = sharding->Find("data");
    if (!data || !data->dict()) return Corrupt("the data of sharding_metadata is missing");
    const bool boxes = type == "default_tensor_v1";
    if (!boxes && type != "DTensorShardingMetadata")
      return Unsupported(
          "sharding_metadata of type {}, expected DTensorShardingMetadata or default_tensor_v1",
          EscapeControl(type.substr(0, 40)));
    NXDKIT_ASSIGN(out.dtype, DtypeIn(*data));
    NXDKIT_ASSIGN(out.shape, NumbersUnder(*data, "global_shape", kMaxDims));
    NXDKIT_TRY(Count(1 + out.shape.size()));
    NXDKIT_TRY(PackedBytes(out.dtype, out.shape));
    if (boxes) {
      NXDKIT_ASSIGN(out.parts, PartsOf(*data, out.shape));
      return out;
    }
    out.sharding.shape = out.shape;
    NXDKIT_TRY(ParseMesh(*data, out));
    return out;
  }

  Status ParseMesh(const PickleValue& data, ShardGroup& out) {
    const PickleValue* mesh = data.Find("mesh_spec");
    if (!mesh || !mesh->dict()) return Corrupt("mesh_spec is missing");
    NXDKIT_ASSIGN(out.sharding.mesh, NumbersUnder(*mesh, "mesh_shape", kMaxDims));
    NXDKIT_ASSIGN(const PickleList* ranks, ListIn(*mesh, "mesh_data"));
    NXDKIT_ASSIGN(out.places, PlacesOf(*ranks));
    NXDKIT_ASSIGN(const PickleList* placements, ListIn(data, "placements"));
    if (placements->size() > kMaxDims)
      return Unsupported("{} placements, the limit is {}", placements->size(), kMaxDims);
    NXDKIT_TRY(Count(out.sharding.mesh.size() + placements->size()));
    for (const PickleValue& value : *placements) {
      NXDKIT_ASSIGN(const Placement placement, ParsePlacement(value));
      out.sharding.placements.push_back(placement);
    }
    NXDKIT_TRY(CheckSharding(out.sharding));
    const auto places = ElementCount(out.sharding.mesh);
    if (places && *places == static_cast<int64_t>(out.places->size())) return OkStatus();
    return Corrupt("a mesh of shape {} with {} ranks", ShapeText(out.sharding.mesh),
                   out.places->size());
  }

  // Two ranks that write one file would overwrite each other.
  Status CheckFiles() const {
    std::unordered_map<std::string_view, int64_t> seen;
    for (const RankedItem& item : out_.items)
      for (const auto& [rank, file] : item.files)
        if (const auto [other, added] = seen.emplace(file.name, rank); !added)
          return Corrupt("rank {} has the file {}, which is that of rank {} or of another item",
                         rank, EscapeControl(file.name), other->second)
              .on(item.name);
    return OkStatus();
  }

  uint64_t bytes_;  // of the file
  uint64_t counted_ = 0;
  RankMetadata out_;
  std::unordered_map<std::string, size_t> items_;  // version 1.0: numbers, by name
  std::unordered_map<const PickleList*, std::shared_ptr<const std::vector<int64_t>>> ranks_;
  std::unordered_map<const PickleList*, std::shared_ptr<const std::map<int64_t, int64_t>>> places_;
  std::map<std::tuple<const PickleList*, const PickleList*, const PickleList*, Shape>,
           std::shared_ptr<const std::vector<Part>>>
      parts_;
};

}  // namespace

Result<LocalShard> ShardGroup::Of(int64_t rank) const {
  if (!places) return LocalShard{{}, *parts};
  const auto place = places->find(rank);
  if (place == places->end()) return Corrupt("the mesh does not have the rank").rank(rank);
  Shape coordinate(sharding.mesh.size());
  int64_t rest = place->second;
  for (size_t d = coordinate.size(); d-- > 0; rest /= sharding.mesh[d])
    coordinate[d] = rest % sharding.mesh[d];
  return ShardAt(sharding, coordinate);
}

std::string RankFileName(const std::string& item, int64_t rank) {
  return fmt::format("{}_{}.pt", item, rank);
}

Result<RankMetadata> ParseRankMetadata(std::string_view pickle) {
  NXDKIT_ASSIGN(const PickleValue root, torch::ReadBarePickle(pickle, NoGlobals()));
  return RankMetadataParser(pickle.size()).Parse(root);
}

}  // namespace nxdkit::dcp
