#include "formats/megatron/fragments.h"

#include <utility>

#include "lib/base/errors.h"

namespace nxdkit::megatron {
namespace {

// Turns the fragments of one chunk into boxes of the parameter.
class ChunkJoiner {
 public:
  ChunkJoiner(const dcp::StoredChunk& chunk, const Shape& each, std::vector<dcp::StoredChunk>& out)
      : chunk_(chunk), each_(each), out_(out) {}

  // `at`: a fragment's place in the chunk, by axis.
  void Add(const Shape& at) {
    const size_t axes = each_.size();
    Shape origin(axes);
    StoredTensor flat = chunk_.stored;
    for (size_t d = 0; d < axes; ++d) {
      origin[d] = (chunk_.box.lo[d] + at[d]) * each_[d];
      flat.offset += static_cast<uint64_t>(at[d] * flat.strides[d] * ElementBytes(flat.dtype));
    }
    const int64_t first = chunk_.box.lo[axes];
    for (dcp::StoredChunk& part : dcp::ChunksOfRange(each_, first, first + chunk_.box.extent[axes],
                                                     std::move(flat), chunk_.file)) {
      for (size_t d = 0; d < axes; ++d) part.box.lo[d] += origin[d];
      out_.push_back(std::move(part));
    }
  }

 private:
  const dcp::StoredChunk& chunk_;
  const Shape& each_;
  std::vector<dcp::StoredChunk>& out_;
};

// The next place in a box of this extent; false after the last one.
bool Next(Shape& at, const Shape& extent) {
  for (size_t d = at.size(); d-- > 0;) {
    if (++at[d] < extent[d]) return true;
    at[d] = 0;
  }
  return false;
}

}  // namespace

bool IsFragmented(const Shape& stored, const Shape& whole) {
  return stored.size() == whole.size() + 1 && !whole.empty();
}

Result<std::vector<dcp::StoredChunk>> JoinFragments(const dcp::StoredEntry& entry,
                                                    const Shape& whole) {
  Shape each(whole.size());
  int64_t elements = 1;
  for (size_t d = 0; d < whole.size(); ++d) {
    const int64_t fragments = entry.shape[d];
    if (fragments < 1 || whole[d] % fragments != 0)
      return Corrupt("{} fragments of an axis of {}", fragments, whole[d]).on(entry.key);
    each[d] = whole[d] / fragments;
    elements *= each[d];
  }
  if (elements != entry.shape.back())
    return Corrupt("fragments of {} elements, expected {} each of shape {}", entry.shape.back(),
                   elements, ShapeText(each))
        .on(entry.key);
  std::vector<dcp::StoredChunk> out;
  for (const dcp::StoredChunk& chunk : entry.chunks) {
    if (chunk.stored.strides.back() != 1 && chunk.stored.shape.back() > 1)
      return Unsupported("the elements of a fragment are not contiguous").on(entry.key);
    ChunkJoiner joiner(chunk, each, out);
    Shape at(whole.size(), 0);
    const Shape extent(chunk.box.extent.begin(), chunk.box.extent.end() - 1);
    do {
      joiner.Add(at);
    } while (Next(at, extent));
  }
  return out;
}

}  // namespace nxdkit::megatron
