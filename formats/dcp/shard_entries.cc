#include "formats/dcp/shard_entries.h"

#include <utility>

#include "formats/torch/pickle_writer.h"
#include "lib/base/errors.h"

namespace nxdkit::dcp {
namespace {

// A part takes some 300 bytes of memory; a real one has more than this many in its file.
constexpr uint64_t kFileBytesPerPart = 8;
constexpr uint64_t kFreeParts = 4096;

// All parts must be inside the rank's tensor, which must not be larger than they say.
Status CheckShape(const Shape& shape, const dtensor::LocalShard& shard) {
  const bool as_said = shard.shape.empty() ? true : shape == shard.shape;
  bool inside = true;
  for (const dtensor::Part& part : shard.parts) {
    inside = inside && part.local_lo.size() == shape.size();
    for (size_t d = 0; inside && d < shape.size(); ++d)
      inside = part.local_lo[d] <= shape[d] && part.box.extent[d] <= shape[d] - part.local_lo[d];
  }
  if (as_said && inside) return OkStatus();
  return Corrupt("the rank has a tensor of shape {}, expected {}", ShapeText(shape),
                 as_said ? "one that contains its parts" : ShapeText(shard.shape));
}

}  // namespace

uint64_t ShardEntries::MaxParts() {
  if (max_parts_ == 0) {
    max_parts_ = kFreeParts;
    for (const TensorFile& file : files_.files) max_parts_ += file.file_bytes / kFileBytesPerPart;
  }
  return max_parts_;
}

Status ShardEntries::Add(const Source& source, const std::string& key, const Shape& shape,
                         const StoredTensor& stored, const dtensor::LocalShard& shard, bool again) {
  NXDKIT_TRY(PackedBytes(stored.dtype, shape).on(key));
  NXDKIT_TRY(CheckShape(stored.shape, shard).on(key));
  NXDKIT_TRY(files_.Count(stored).on(key));
  NXDKIT_ASSIGN(StoredEntry * entry, EntryOf(source, key, shape, stored.dtype, again));
  parts_ += shard.parts.size();
  if (parts_ > MaxParts())
    return Unsupported(
               "the folder has more than {} parts of tensors, which is more than its "
               "files have room for",
               parts_ - 1)
        .on(key);
  for (const dtensor::Part& part : shard.parts) {
    StoredTensor view = stored;
    view.name = key;
    view.shape = part.box.extent;
    for (size_t d = 0; d < part.local_lo.size(); ++d)
      view.offset += static_cast<uint64_t>(part.local_lo[d] * stored.strides[d]) *
                     static_cast<uint64_t>(ElementBytes(stored.dtype));
    view = files_.Kept(std::move(view));
    files_.files[source.file].tensors.push_back(view);
    entry->chunks.push_back({part.box, source.file, std::move(view)});
  }
  return OkStatus();
}

Status ShardEntries::AddRange(const Source& source, const std::string& key, const Shape& shape,
                              const StoredTensor& stored, const Range& range, bool again) {
  StoredTensor flat = stored;
  flat.offset +=
      static_cast<uint64_t>(range.at) * static_cast<uint64_t>(ElementBytes(stored.dtype));
  for (const StoredChunk& chunk :
       ChunksOfRange(shape, range.first, range.first + range.count, std::move(flat), source.file)) {
    NXDKIT_TRY(Add(source, key, shape, chunk.stored,
                   {chunk.box.extent, {{chunk.box, Shape(shape.size(), 0)}}}, again));
    again = true;
  }
  return OkStatus();
}

Result<StoredEntry*> ShardEntries::EntryOf(const Source& source, const std::string& key,
                                           const Shape& shape, Dtype dtype, bool again) {
  const auto [number, added] = numbers_.emplace(key, out_.tensors.size());
  if (added) {
    out_.tensors.push_back({key, dtype, shape, {}});
    owners_.push_back(source);
  }
  StoredEntry& entry = out_.tensors[number->second];
  Source& owner = owners_[number->second];
  if (!added && !again && owner.file == source.file)
    return Corrupt("two tensors have the same name").on(key);
  owner = source;
  if (entry.shape == shape && entry.dtype == dtype) return &entry;
  return Corrupt("rank {} has it as {} {}, an earlier rank as {} {}", source.rank, Name(dtype),
                 ShapeText(shape), Name(entry.dtype), ShapeText(entry.shape))
      .on(key);
}

Status ShardEntries::AddObject(const std::string& key, const torch::PickleValue& value,
                               torch::PickleValue path, bool must_agree) {
  NXDKIT_ASSIGN(std::string text, torch::WritePickle(value, {}));
  const auto [known, added] = objects_.emplace(key, text);
  if (added) {
    out_.metadata.objects.push_back({key, {}, value});
    out_.metadata.SetPath(key, std::move(path));
    return OkStatus();
  }
  if (known->second != text && must_agree)
    return Corrupt("the ranks have different values of it").on(key);
  if (known->second != text && differing_.insert(key).second) WarnOfDifference(out_, key);
  return OkStatus();
}

const StoredEntry* ShardEntries::Find(const std::string& key) const {
  const auto number = numbers_.find(key);
  return number == numbers_.end() ? nullptr : &out_.tensors[number->second];
}

}  // namespace nxdkit::dcp
