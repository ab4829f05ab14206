#include "lib/sinks/compare_sink.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/base/simd.h"
#include "lib/plan/transpose.h"

namespace nxdkit {
namespace {

template <typename Element>
NXDKIT_INLINE Element Load(const std::byte* from, int64_t i) {
  Element element;
  std::memcpy(&element, from + i * static_cast<int64_t>(sizeof element), sizeof element);
  return element;
}

// The counts of a block fit the element's own type: vectors of them need not be widened.
template <typename Element>
NXDKIT_INLINE int64_t CountDifferent(const std::byte* a, const std::byte* b, int64_t size) {
  constexpr int64_t kBlock = sizeof(Element) == 1 ? 192 : 16384;
  int64_t count = 0;
  for (int64_t first = 0; first < size; first += kBlock) {
    const int64_t end = std::min(first + kBlock, size);
    Element different = 0;
    for (int64_t i = first; i < end; ++i)
      different = static_cast<Element>(different + (Load<Element>(a, i) != Load<Element>(b, i)));
    count += static_cast<int64_t>(different);
  }
  return count;
}

#define NXDKIT_COUNT_FUNCTION(NAME, ELEMENT)                                         \
  NXDKIT_CLONES int64_t NAME(const std::byte* a, const std::byte* b, int64_t size) { \
    return CountDifferent<ELEMENT>(a, b, size);                                      \
  }
NXDKIT_COUNT_FUNCTION(CountBytes, uint8_t)
NXDKIT_COUNT_FUNCTION(CountHalves, uint16_t)
NXDKIT_COUNT_FUNCTION(CountWords, uint32_t)
NXDKIT_COUNT_FUNCTION(CountDoubles, uint64_t)
#undef NXDKIT_COUNT_FUNCTION

int64_t CountComplex(const std::byte* a, const std::byte* b, int64_t size) {
  using Complex = std::array<uint64_t, 2>;
  int64_t count = 0;
  for (int64_t i = 0; i < size; ++i) count += Load<Complex>(a, i) != Load<Complex>(b, i) ? 1 : 0;
  return count;
}

int64_t CountMismatches(int64_t element_bytes, std::span<const std::byte> a,
                        std::span<const std::byte> b) {
  constexpr int64_t (*kCounts[])(const std::byte*, const std::byte*, int64_t) = {
      CountBytes, CountHalves, CountWords, CountDoubles, CountComplex};
  const int64_t size = static_cast<int64_t>(a.size()) / element_bytes;
  return kCounts[SizeIndex(element_bytes)](a.data(), b.data(), size);
}

}  // namespace

std::string ValueText(Dtype dtype, const std::byte* element) {
  std::string bits;
  for (int64_t i = ElementBytes(dtype) - 1; i >= 0; --i)
    bits += fmt::format("{:02x}", static_cast<unsigned>(element[i]));
  return fmt::format("{:.6g} (0x{})", ElementAsDouble(dtype, element), bits);
}

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
  const ScratchPool<Scratch>::Lease scratch = scratch_.Take();
  const std::span<std::byte> found = scratch->chunk.AtLeast(bytes.size());
  NXDKIT_TRY(scratch->gatherer.Read({{CopyWhole(actual_.stored[tensor], tensor)}, {}}, actual_,
                                    outputs_[tensor], offset, found));
  if (seen_) seen_(tensor, offset, found);
  if (std::memcmp(bytes.data(), found.data(), bytes.size()) != 0) {
    const Dtype dtype = outputs_[tensor].dtype;
    const int64_t size = ElementBytes(dtype);
    const int64_t first = (std::ranges::mismatch(bytes, found).in1 - bytes.begin()) / size;
    Record({tensor, static_cast<int64_t>(offset) / size + first,
            CountMismatches(size, bytes, found), ValueText(dtype, bytes.data() + first * size),
            ValueText(dtype, found.data() + first * size)});
  }
  return OkStatus();
}

std::vector<Difference> CompareSink::differences() const {
  const std::lock_guard lock(mutex_);
  std::vector<Difference> out;
  for (const auto& [tensor, difference] : differences_) out.push_back(difference);
  return out;
}

}  // namespace nxdkit
