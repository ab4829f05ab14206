#include "formats/artifact/value_kernels.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "lib/base/simd.h"
#include "lib/tensor/tally.h"

namespace nxdkit::artifact {
namespace {

// The number of bytes after which the answer may be known.
constexpr size_t kLookBytes = 16384;

// Whether every element lacks a bit of `exponent`.
template <typename Bits>
NXDKIT_INLINE bool NoneFull(std::span<const std::byte> bytes, Bits exponent) {
  const size_t size = bytes.size() / sizeof(Bits);
  constexpr size_t kBlock = kLookBytes / sizeof(Bits);
  for (size_t first = 0; first < size; first += kBlock) {
    const size_t end = std::min(first + kBlock, size);
    Bits full = 0;
    for (size_t i = first; i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
      full = static_cast<Bits>(full | static_cast<Bits>((bits & exponent) == exponent));
    }
    if (full != 0) return false;
  }
  return true;
}

// Whether every bit but the signs is 0.
template <typename Bits>
NXDKIT_INLINE bool NoneSet(std::span<const std::byte> bytes) {
  const size_t size = bytes.size() / sizeof(Bits);
  constexpr size_t kBlock = kLookBytes / sizeof(Bits);
  for (size_t first = 0; first < size; first += kBlock) {
    const size_t end = std::min(first + kBlock, size);
    Bits any = 0;
    for (size_t i = first; i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
      any = static_cast<Bits>(any | bits);
    }
    if (static_cast<Bits>(any << 1) != 0) return false;
  }
  return true;
}

NXDKIT_CLONES bool NoneFull8(std::span<const std::byte> bytes, uint8_t exponent) {
  return NoneFull<uint8_t>(bytes, exponent);
}
NXDKIT_CLONES bool NoneFull16(std::span<const std::byte> bytes, uint16_t exponent) {
  return NoneFull<uint16_t>(bytes, exponent);
}
NXDKIT_CLONES bool NoneFull32(std::span<const std::byte> bytes) {
  return NoneFull<uint32_t>(bytes, 0x7f800000);
}
NXDKIT_CLONES bool NoneFull64(std::span<const std::byte> bytes) {
  return NoneFull<uint64_t>(bytes, 0x7ff0000000000000);
}
NXDKIT_CLONES bool NoneSet8(std::span<const std::byte> bytes) { return NoneSet<uint8_t>(bytes); }
NXDKIT_CLONES bool NoneSet16(std::span<const std::byte> bytes) { return NoneSet<uint16_t>(bytes); }
NXDKIT_CLONES bool NoneSet32(std::span<const std::byte> bytes) { return NoneSet<uint32_t>(bytes); }
NXDKIT_CLONES bool NoneSet64(std::span<const std::byte> bytes) { return NoneSet<uint64_t>(bytes); }

Tally TallyOf(Dtype dtype, std::span<const std::byte> bytes) {
  return TallyElements(dtype, bytes.data(),
                       static_cast<int64_t>(bytes.size()) / ElementBytes(dtype));
}

}  // namespace

bool AllFinite(Dtype dtype, std::span<const std::byte> elements) {
  switch (dtype) {
    case Dtype::kF8E5M2:
      return NoneFull8(elements, 0x7c);
    case Dtype::kF8E4M3:  // has no infinities, and one NaN
      return NoneFull8(elements, 0x7f);
    case Dtype::kF16:
      return NoneFull16(elements, 0x7c00);
    case Dtype::kBF16:
      return NoneFull16(elements, 0x7f80);
    case Dtype::kF32:
      return NoneFull32(elements);
    case Dtype::kF64:
      return NoneFull64(elements);
    default:
      break;
  }
  const Tally tally = TallyOf(dtype, elements);
  return tally.nan + tally.inf == 0;
}

bool AllZero(Dtype dtype, std::span<const std::byte> elements) {
  switch (dtype) {
    case Dtype::kF8E5M2:
    case Dtype::kF8E4M3:
      return NoneSet8(elements);
    case Dtype::kF16:
    case Dtype::kBF16:
      return NoneSet16(elements);
    case Dtype::kF32:
      return NoneSet32(elements);
    case Dtype::kF64:
      return NoneSet64(elements);
    default:
      break;
  }
  const Tally tally = TallyOf(dtype, elements);
  return tally.zeros == tally.elements;
}

}  // namespace nxdkit::artifact
