#include "formats/dcp/metadata.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "formats/dcp/folder_files.h"
#include "formats/dcp/metadata_globals.h"
#include "formats/torch/bare_pickle.h"
#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::dcp {
namespace {

using torch::PickleRecord;
using torch::PickleValue;

constexpr size_t kMaxRank = 64;
constexpr size_t kMaxNamesBytes = 200;

// The first part of a usual path of two parts; "" when the path has one.
std::string_view TopOf(std::string_view key) {
  for (const std::string_view top : {"optimizer", "lr_scheduler", "train_state"})
    if (key.starts_with(top) && key.substr(top.size()).starts_with('.')) return top;
  return "";
}

bool IsUsualPath(std::string_view key, const torch::PickleList& path) {
  const std::string_view top = TopOf(key);
  const auto is = [&](size_t i, std::string_view name) {
    return path[i].string() && *path[i].string() == name;
  };
  if (top.empty()) return path.size() == 1 && is(0, key);
  return path.size() == 2 && is(0, top) && is(1, key.substr(top.size() + 1));
}

// The state of a record of this class, a dict.
Result<const PickleValue*> StateOf(const PickleValue& value, std::string_view class_name) {
  const PickleRecord* record = value.record();
  if (!record || record->name != class_name)
    return Corrupt("a value is {}, expected a {}", record ? record->name : "no record", class_name);
  if (!record->arguments.empty()) return Corrupt("a {} with arguments", class_name);
  if (!record->state || !record->state->dict())
    return Corrupt("a {} whose state is not a dict", class_name);
  return &*record->state;
}

Result<Shape> SizeOf(const PickleValue* value, std::string_view name) {
  const auto* size = value ? std::get_if<torch::TorchSize>(&value->value) : nullptr;
  if (!size) return Corrupt("{} is missing, or not a torch.Size", name);
  if (size->dims.size() > kMaxRank)
    return Unsupported("{} has {} dimensions, the limit is {}", name, size->dims.size(), kMaxRank);
  for (const int64_t dim : size->dims)
    if (dim < 0)
      return Corrupt("{} is {}, which has a negative number", name, ShapeText(size->dims));
  return size->dims;
}

// Only the dtype counts: an archive has its own strides, and the other properties concern memory.
Result<Dtype> DtypeOf(const PickleValue* value) {
  const PickleRecord* record = value ? value->record() : nullptr;
  if (!record || (record->name != kPropertiesClass && record->name != kOldPropertiesClass))
    return Corrupt("properties are missing, or not TensorProperties");
  const torch::PickleList* fields = record->state ? record->state->list() : nullptr;
  if (!fields || fields->size() < 5 || fields->size() > 6)
    return Corrupt("properties have {} fields, expected 5 or 6", fields ? fields->size() : 0);
  const auto* dtype = std::get_if<Dtype>(&fields->front().value);
  if (!dtype) return Corrupt("the first field of properties is not a known dtype");
  if (ElementBytes(*dtype) == 0)
    return Unsupported("elements of {} are smaller than a byte", Name(*dtype));
  const PickleRecord* layout = (*fields)[1].record();
  const bool strided = layout && layout->name == kGetLayout && layout->arguments.size() == 1 &&
                       layout->arguments[0].string() && *layout->arguments[0].string() == kStrided;
  if (!strided) return Unsupported("the tensor's layout is not {}", kStrided);
  return *dtype;
}

// Items are compared by key and offset: the number that an index may also have is a hint.
std::string IndexKey(const std::string& key, const Shape& offset, bool is_tensor) {
  return fmt::format("{}\n{}", is_tensor ? ShapeText(offset) : "", key);
}

// Absent before torch 2.8. A second major version is unknown territory.
Status CheckVersion(const PickleValue& version) {
  if (std::holds_alternative<PickleValue::None>(version.value)) return OkStatus();
  if (!version.string()) return Corrupt("version is not a string");
  if (version.string()->starts_with("1.")) return OkStatus();
  return Unsupported("version \"{}\", expected 1.0.0",
                     EscapeControl(version.string()->substr(0, 40)));
}

struct MetadataParser {
  bool whole;
  // By IndexKey; entries are removed as chunks and objects claim them.
  std::unordered_map<std::string, ItemPlace> places = {};
  Metadata out = {};

  Result<Metadata> Parse(torch::BareRecord& root) {
    NXDKIT_ASSIGN(const PickleValue version, root.Value("version"));
    NXDKIT_TRY(CheckVersion(version));
    NXDKIT_TRY(root.ForEach("storage_data", [&](const PickleValue& index, const PickleValue& info) {
      return ReadPlace(index, info);
    }));
    NXDKIT_TRY(root.ForEach("state_dict_metadata",
                            [&](const PickleValue& key, const PickleValue& value) -> Status {
                              if (!key.string())
                                return Corrupt("a key of state_dict_metadata is not a string");
                              return ReadEntry(*key.string(), value).on(*key.string());
                            }));
    if (!places.empty()) return LeftOver();
    if (root.Has("planner_data")) NXDKIT_TRY(ReadPaths(root));
    return std::move(out);
  }

  Status ReadPlace(const PickleValue& index, const PickleValue& info) {
    NXDKIT_ASSIGN(const PickleValue* state, StateOf(index, kIndexClass));
    const PickleValue* fqn = state->Find("fqn");
    if (!fqn || !fqn->string()) return Corrupt("a MetadataIndex has no fqn");
    const std::string& key = *fqn->string();
    const PickleValue* offset = state->Find("offset");
    const bool is_tensor = offset && !std::holds_alternative<PickleValue::None>(offset->value);
    Shape lo;
    if (is_tensor) NXDKIT_TRY(SizeOf(offset, "the offset of a MetadataIndex").on(key).To(lo));
    NXDKIT_ASSIGN(ItemPlace place, PlaceOf(info).on(key));
    if (!places.emplace(IndexKey(key, lo, is_tensor), std::move(place)).second)
      return Corrupt("storage_data has two places for the chunk at {}", ShapeText(lo)).on(key);
    return OkStatus();
  }

  // One descriptor is known. With several, torch's reader undoes them in another order than its
  // writer records.
  static Result<bool> IsCompressed(const PickleValue* transforms) {
    if (!transforms || std::holds_alternative<PickleValue::None>(transforms->value)) return false;
    if (!transforms->list()) return Corrupt("transform_descriptors are not a list");
    if (transforms->list()->empty()) return false;
    std::string names;
    for (const PickleValue& each : *transforms->list()) {
      if (!each.string()) return Corrupt("a descriptor of a transformation is not a string");
      if (names.size() < kMaxNamesBytes)
        names += (names.empty() ? "" : ", ") + EscapeControl(*each.string());
    }
    if (names == kZstd) return true;
    return Unsupported("the item is transformed by {}, expected {} or nothing", names, kZstd)
        .hint("save the checkpoint without extensions");
  }

  static Result<ItemPlace> PlaceOf(const PickleValue& value) {
    NXDKIT_ASSIGN(const PickleValue* state, StateOf(value, kStorageInfoClass));
    const PickleValue* path = state->Find("relative_path");
    const PickleValue* offset = state->Find("offset");
    const PickleValue* length = state->Find("length");
    if (!path || !path->string() || !offset || !offset->integer() || !length || !length->integer())
      return Corrupt("a _StorageInfo lacks relative_path, offset or length");
    NXDKIT_TRY(CheckFileName(*path->string(), "relative_path"));
    const auto start = CheckedCast<uint64_t>(*offset->integer());
    const auto bytes = CheckedCast<uint64_t>(*length->integer());
    if (!start || !bytes || !CheckedAdd(*start, *bytes))
      return Corrupt("an item of {} bytes at {} of {}", *length->integer(), *offset->integer(),
                     EscapeControl(*path->string()));
    NXDKIT_ASSIGN(const bool zstd, IsCompressed(state->Find("transform_descriptors")));
    return ItemPlace{*path->string(), *start, *bytes, zstd};
  }

  Error LeftOver() const {
    std::string first;
    for (const auto& [key, place] : places)
      if (first.empty() || key < first) first = key;
    return Corrupt("storage_data has a place for a chunk or object that state_dict_metadata lacks")
        .on(first.substr(first.find('\n') + 1));
  }

  // Takes the place of a chunk or an object out of the map.
  Result<ItemPlace> TakePlace(const std::string& key, const Shape& lo, bool is_tensor) {
    const auto found = places.find(IndexKey(key, lo, is_tensor));
    if (found == places.end())
      return is_tensor ? Corrupt("storage_data has no place for the chunk at {}", ShapeText(lo))
                       : Corrupt("storage_data has no place for the object");
    ItemPlace place = std::move(found->second);
    places.erase(found);
    return place;
  }

  Status ReadEntry(const std::string& key, const PickleValue& value) {
    const PickleRecord* record = value.record();
    if (record && record->name == kBytesClass) {
      NXDKIT_ASSIGN(ItemPlace place, TakePlace(key, {}, false));
      out.objects.push_back({key, std::move(place)});
      return OkStatus();
    }
    NXDKIT_ASSIGN(const PickleValue* state, StateOf(value, kTensorClass));
    TensorEntry entry{key, Dtype::kF32, {}, {}};
    NXDKIT_ASSIGN(entry.dtype, DtypeOf(state->Find("properties")));
    NXDKIT_ASSIGN(entry.shape, SizeOf(state->Find("size"), "size"));
    NXDKIT_TRY(PackedBytes(entry.dtype, entry.shape));
    const PickleValue* chunks = state->Find("chunks");
    if (!chunks || !chunks->list()) return Corrupt("chunks is missing, or not a list");
    std::vector<Shape> empty;
    for (const PickleValue& chunk : *chunks->list()) NXDKIT_TRY(ReadChunk(entry, chunk, empty));
    for (const Shape& lo : empty) places.erase(IndexKey(key, lo, true));
    if (whole) NXDKIT_TRY(CheckCover(entry));
    out.tensors.push_back(std::move(entry));
    return OkStatus();
  }

  // A rank without rows writes an empty chunk. Before torch 2.7 it did so at any offset, possibly
  // that of a chunk with elements: those take their places first.
  Status ReadChunk(TensorEntry& entry, const PickleValue& value, std::vector<Shape>& empty) {
    NXDKIT_ASSIGN(const PickleValue* state, StateOf(value, kChunkClass));
    Box box;
    NXDKIT_ASSIGN(box.lo, SizeOf(state->Find("offsets"), "offsets"));
    NXDKIT_ASSIGN(box.extent, SizeOf(state->Find("sizes"), "sizes"));
    if (box.lo.size() != entry.shape.size() || box.extent.size() != entry.shape.size())
      return Corrupt("a chunk has {} offsets and {} sizes, the tensor {} dimensions", box.lo.size(),
                     box.extent.size(), entry.shape.size());
    NXDKIT_TRY(CheckBox(box, entry.shape));
    if (box.Volume() == 0) {
      empty.push_back(std::move(box.lo));
      return OkStatus();
    }
    NXDKIT_ASSIGN(ItemPlace place, TakePlace(entry.key, box.lo, true));
    entry.chunks.push_back({std::move(box), std::move(place)});
    return OkStatus();
  }

  Status ReadPaths(torch::BareRecord& root) {
    const auto read = [&](const PickleValue& key, const PickleValue& path) -> Status {
      const bool is_tuple = std::holds_alternative<PickleValue::Tuple>(path.value);
      if (!key.string() || !is_tuple)
        return Corrupt("planner_data is not a dict of strings and tuples");
      return ReadPath(*key.string(), path).on(*key.string());
    };
    return root.ForEach("planner_data", read);
  }

  Status ReadPath(const std::string& key, const PickleValue& path) {
    for (const PickleValue& part : *path.list())
      if (!part.string() && !part.integer())
        return Corrupt("planner_data has a path with parts other than strings and numbers");
    out.SetPath(key, path);
    return OkStatus();
  }
};

Result<Metadata> Parse(std::string_view pickle, bool whole) {
  NXDKIT_ASSIGN(const std::unique_ptr<torch::BareRecord> root,
                torch::BareRecord::Read(pickle, MetadataGlobals(), kMetadataClasses));
  return MetadataParser{whole}.Parse(*root);
}

}  // namespace

PickleValue Metadata::PathOf(const std::string& key) const {
  if (const auto path = paths.find(key); path != paths.end()) return path->second;
  const std::string_view top = TopOf(key);
  if (top.empty()) return PickleValue::MakeTuple({{key}});
  return PickleValue::MakeTuple({{std::string(top)}, {key.substr(top.size() + 1)}});
}

void Metadata::SetPath(const std::string& key, PickleValue path) {
  if (!IsUsualPath(key, *path.list())) paths.emplace(key, std::move(path));
}

Result<Metadata> ParseMetadata(std::string_view pickle) { return Parse(pickle, true); }

Result<Metadata> ParsePartOfMetadata(std::string_view pickle) { return Parse(pickle, false); }

Status CheckBox(const Box& box, const Shape& shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (box.lo[d] > shape[d] || box.extent[d] > shape[d] - box.lo[d])
      return Corrupt("the chunk of sizes {} at {} is outside the tensor's shape {}",
                     ShapeText(box.extent), ShapeText(box.lo), ShapeText(shape));
  return OkStatus();
}

Status CheckCover(std::vector<Box> boxes, const Shape& shape) {
  std::ranges::sort(boxes, [](const Box& a, const Box& b) {
    return std::tie(a.lo, a.extent) < std::tie(b.lo, b.extent);
  });
  boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());  // copies
  int64_t covered = 0;
  for (const Box& box : boxes) {
    const auto sum = CheckedAdd(covered, box.Volume());
    if (!sum) return Corrupt("the chunks hold more than 2^63 elements");
    covered = *sum;
  }
  NXDKIT_ASSIGN(const auto pair, FindOverlap(boxes));
  if (pair)
    return Corrupt("the chunks {} and {} overlap", BoxText(boxes[pair->second]),
                   BoxText(boxes[pair->first]));
  const int64_t all = WholeBox(shape).Volume();
  if (covered == all) return OkStatus();
  return Corrupt("the chunks hold {} of the tensor's {} elements {}", covered, all,
                 ShapeText(shape))
      .hint("torch silently loads such a file, and leaves the gap as it was");
}

}  // namespace nxdkit::dcp
