#include "lib/compare_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace nxdkit {
namespace {

std::string ValueText(Dtype dtype, const std::byte* element) {
  std::string bits;
  for (int64_t i = ElementBytes(dtype) - 1; i >= 0; --i)
    bits += fmt::format("{:02x}", static_cast<unsigned>(element[i]));
  return fmt::format("{:.6g} (0x{})", ElementAsDouble(dtype, element), bits);
}

struct Mismatch {
  int64_t first = 0;  // elements
  int64_t count = 0;
};

// Of two runs of equal length that are not equal. The loop is one that compilers vectorise.
template <typename Element>
Mismatch CountMismatches(std::span<const std::byte> a, std::span<const std::byte> b) {
  const auto load = [](std::span<const std::byte> from, int64_t i) {
    Element element;
    std::memcpy(&element, from.data() + i * static_cast<int64_t>(sizeof element), sizeof element);
    return element;
  };
  const auto size = static_cast<int64_t>(a.size() / sizeof(Element));
  Mismatch out;
  while (load(a, out.first) == load(b, out.first)) ++out.first;
  for (int64_t i = out.first; i < size; ++i) out.count += load(a, i) != load(b, i) ? 1 : 0;
  return out;
}

Mismatch FindMismatch(int64_t element_bytes, std::span<const std::byte> a,
                      std::span<const std::byte> b) {
  switch (element_bytes) {
    case 1:
      return CountMismatches<uint8_t>(a, b);
    case 2:
      return CountMismatches<uint16_t>(a, b);
    case 4:
      return CountMismatches<uint32_t>(a, b);
    case 8:
      return CountMismatches<uint64_t>(a, b);
    default:
      NXDKIT_CHECK(element_bytes == 16);
      return CountMismatches<std::array<uint64_t, 2>>(a, b);
  }
}

}  // namespace

ElementPlace PlaceOf(const TensorLayout& tensor, int64_t element) {
  ElementPlace place;
  for (int64_t stride : RowMajorStrides(tensor.shape)) {
    place.stored.push_back(element / stride);
    element %= stride;
  }
  const Box point{place.stored, Shape(place.stored.size(), 1)};
  for (const Piece& piece : tensor.pieces) {
    if (!Intersect(StoredBox(piece, tensor.shape.size()), point)) continue;
    place.param = piece.param;
    for (size_t d = 0; d < piece.axes.size(); ++d)
      place.logical.push_back(piece.logical.lo[d] + place.stored[piece.axes[d]] -
                              piece.stored_lo[piece.axes[d]]);
    return place;
  }
  return place;
}

std::unique_ptr<CompareSink::Scratch> CompareSink::Borrow() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Scratch>();
  std::unique_ptr<Scratch> scratch = std::move(idle_.back());
  idle_.pop_back();
  return scratch;
}

void CompareSink::Return(std::unique_ptr<Scratch> scratch) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(scratch));
}

// The stored bytes of the same chunk.
Status CompareSink::Load(uint32_t tensor, uint64_t offset, std::span<std::byte> to,
                         Gatherer& gatherer) const {
  const StoredTensor& stored = actual_.stored[tensor];
  const bool swaps = stored.big_endian && Info(stored.dtype).swap_bytes > 1;
  if (IsPacked(stored) && !swaps) {
    Status read = stored.storage->ReadAt(stored.offset + offset, to);
    if (!read.ok()) return std::move(read).error().on(stored.name);
    return OkStatus();
  }
  const int64_t bytes = ElementBytes(stored.dtype);
  const int64_t first = static_cast<int64_t>(offset) / bytes;
  const int64_t end = first + static_cast<int64_t>(to.size()) / bytes;
  const Shape packed = RowMajorStrides(stored.shape);
  std::vector<Move> moves;
  for (const Box& box : RangeBoxes(stored.shape, first, end)) {
    int64_t start = 0;
    int64_t at = -first;
    for (size_t d = 0; d < packed.size(); ++d) {
      start += box.lo[d] * stored.strides[d];
      at += box.lo[d] * packed[d];
    }
    const StridedCopy copy{box.extent, stored.strides, packed, stored.dtype, stored.dtype, swaps};
    moves.push_back({&stored, start, copy, to.data() + at * bytes});
  }
  return gatherer.Run(std::move(moves));
}

void CompareSink::Record(Difference difference) {
  const std::lock_guard lock(mutex_);
  const auto [it, added] = differences_.emplace(difference.tensor, difference);
  if (added) return;
  Difference& known = it->second;
  const int64_t count = known.count + difference.count;
  if (difference.first < known.first) known = std::move(difference);
  known.count = count;
}

Status CompareSink::Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
  std::unique_ptr<Scratch> scratch = Borrow();
  scratch->chunk.resize(std::max(scratch->chunk.size(), bytes.size()));
  const std::span<std::byte> found = std::span(scratch->chunk).first(bytes.size());
  NXDKIT_TRY(Load(tensor, offset, found, scratch->gatherer));
  if (std::memcmp(bytes.data(), found.data(), bytes.size()) != 0) {
    const Dtype dtype = outputs_[tensor].dtype;
    const int64_t size = ElementBytes(dtype);
    const Mismatch mismatch = FindMismatch(size, bytes, found);
    const auto at = static_cast<size_t>(mismatch.first * size);
    Record({tensor, static_cast<int64_t>(offset) / size + mismatch.first, mismatch.count,
            ValueText(dtype, bytes.data() + at), ValueText(dtype, found.data() + at)});
  }
  Return(std::move(scratch));
  return OkStatus();
}

std::vector<Difference> CompareSink::differences() const {
  const std::lock_guard lock(mutex_);
  std::vector<Difference> out;
  for (const auto& [tensor, difference] : differences_) out.push_back(difference);
  return out;
}

}  // namespace nxdkit
