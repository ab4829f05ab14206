#include "formats/ops/diff/squares.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lib/base/error.h"
#include "lib/base/simd.h"

namespace nxdkit::ops {
namespace {

constexpr int64_t kBlockOfSquares = 1024;  // elements that are compared, or converted, at a time
// Sums are kept in lanes, vectors of the compiler: their order is part of the source.
constexpr int64_t kSquareLanes = 8;
using SquareDoubles = double __attribute__((vector_size(kSquareLanes * sizeof(double))));
using SquareFloats = float __attribute__((vector_size(kSquareLanes * sizeof(float))));
using SquareWords = uint32_t __attribute__((vector_size(kSquareLanes * sizeof(uint32_t))));

// Elements that are loaded at once: of BF16 two vectors, the even ones and the odd ones.
template <typename Element>
constexpr int64_t kStep = sizeof(Element) == 2 ? 2 * kSquareLanes : kSquareLanes;

// Vector `part` of a step: `Element` is uint16_t for BF16, float or double.
template <typename Element>
NXDKIT_INLINE void LoadEight(const std::byte* from, int part, SquareDoubles& values) {
  if constexpr (std::is_same_v<Element, double>) {
    std::memcpy(&values, from, sizeof values);
  } else if constexpr (std::is_same_v<Element, float>) {
    SquareFloats floats;
    std::memcpy(&floats, from, sizeof floats);
    values = __builtin_convertvector(floats, SquareDoubles);
  } else {  // in the low and in the high half of a word
    SquareWords words;
    std::memcpy(&words, from, sizeof words);
    words = part == 0 ? words << 16 : words & 0xffff0000U;
    SquareFloats floats;
    std::memcpy(&floats, &words, sizeof floats);
    values = __builtin_convertvector(floats, SquareDoubles);
  }
}

// `kFinite`: all are taken to be finite, and a sum that is not tells that one was not.
template <typename Element, bool kFinite>
NXDKIT_INLINE void AddEight(const std::byte* from_a, const std::byte* from_b, int part,
                            SquareDoubles& sum_a, SquareDoubles& sum_update) {
  SquareDoubles a;
  SquareDoubles b;
  LoadEight<Element>(from_a, part, a);
  LoadEight<Element>(from_b, part, b);
  SquareDoubles update = b - a;
  if constexpr (!kFinite) {
    const SquareDoubles zeros{};
    a = (a - a == zeros) ? a : zeros;
    update = (update - update == zeros) ? update : zeros;
  }
  sum_a += a * a;
  sum_update += update * update;
}

template <typename Element, bool kFinite>
NXDKIT_INLINE Squares SumBlock(const std::byte* a, const std::byte* b, int64_t count) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Element));
  constexpr int kParts = kStep<Element> / kSquareLanes;
  SquareDoubles sum_a{};
  SquareDoubles sum_update{};
  int64_t i = 0;
  for (; i + kStep<Element> <= count; i += kStep<Element>)
    for (int part = 0; part < kParts; ++part)
      AddEight<Element, kFinite>(a + i * kBytes, b + i * kBytes, part, sum_a, sum_update);
  if (i < count) {
    std::array<std::byte, kStep<Element> * sizeof(Element)> rest_a{};
    std::array<std::byte, kStep<Element> * sizeof(Element)> rest_b{};
    std::memcpy(rest_a.data(), a + i * kBytes, static_cast<size_t>((count - i) * kBytes));
    std::memcpy(rest_b.data(), b + i * kBytes, static_cast<size_t>((count - i) * kBytes));
    for (int part = 0; part < kParts; ++part)
      AddEight<Element, kFinite>(rest_a.data(), rest_b.data(), part, sum_a, sum_update);
  }
  Squares squares;
  for (int64_t lane = 0; lane < kSquareLanes; ++lane) squares.Add({sum_a[lane], sum_update[lane]});
  return squares;
}

// ||A||^2 of a block that is the same in B.
template <typename Element>
NXDKIT_INLINE double SumEqualBlock(const std::byte* a, int64_t count) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Element));
  SquareDoubles sum{};
  for (int64_t i = 0; i < count; i += kStep<Element>)
    for (int part = 0; part < kStep<Element> / kSquareLanes; ++part) {
      SquareDoubles values;
      LoadEight<Element>(a + i * kBytes, part, values);
      sum += values * values;
    }
  double squares = 0;
  for (int64_t lane = 0; lane < kSquareLanes; ++lane) squares += sum[lane];
  return squares;
}

template <typename Element>
NXDKIT_INLINE Squares SumPacked(const std::byte* a, const std::byte* b, int64_t count) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Element));
  Squares squares;
  for (int64_t first = 0; first < count; first += kBlockOfSquares) {
    const int64_t size = std::min(kBlockOfSquares, count - first);
    const std::byte* const from_a = a + first * kBytes;
    const std::byte* const from_b = b + first * kBytes;
    Squares block;
    const bool whole = size == kBlockOfSquares;
    if (whole && std::memcmp(from_a, from_b, static_cast<size_t>(size * kBytes)) == 0)
      block.a = SumEqualBlock<Element>(from_a, size);
    else
      block = SumBlock<Element, true>(from_a, from_b, size);
    const bool finite = block.a + block.update < std::numeric_limits<double>::infinity();
    squares.Add(finite ? block : SumBlock<Element, false>(from_a, from_b, size));
  }
  return squares;
}

#define NXDKIT_SQUARES_FUNCTION(NAME, ELEMENT)                                        \
  NXDKIT_CLONES Squares NAME(const std::byte* a, const std::byte* b, int64_t count) { \
    return SumPacked<ELEMENT>(a, b, count);                                           \
  }
NXDKIT_SQUARES_FUNCTION(SumBf16, uint16_t)
NXDKIT_SQUARES_FUNCTION(SumF32, float)
NXDKIT_SQUARES_FUNCTION(SumF64, double)
#undef NXDKIT_SQUARES_FUNCTION

// Elements as doubles, whatever their type.
class ToDoubles {
 public:
  explicit ToDoubles(Dtype dtype) : dtype_(dtype) {
    if (ElementBytes(dtype) != 1) return;
    for (size_t bits = 0; bits < of_byte_.size(); ++bits) {
      const auto element = static_cast<std::byte>(bits);
      of_byte_[bits] = ElementAsDouble(dtype, &element);
    }
  }

  void Convert(const std::byte* from, double* to, int64_t count) const {
    if (Info(dtype_).floating)
      return ConvertElements(dtype_, from, Dtype::kF64, reinterpret_cast<std::byte*>(to), count);
    const int64_t bytes = ElementBytes(dtype_);
    for (int64_t i = 0; i < count; ++i)
      to[i] = bytes == 1 ? of_byte_[std::to_integer<size_t>(from[i])]
                         : ElementAsDouble(dtype_, from + i * bytes);
  }

 private:
  const Dtype dtype_;
  std::array<double, 256> of_byte_{};
};

Squares SumConverted(Dtype a_dtype, const std::byte* a, Dtype b_dtype, const std::byte* b,
                     int64_t count) {
  const ToDoubles from_a(a_dtype);
  const ToDoubles from_b(b_dtype);
  std::array<double, kBlockOfSquares> of_a;
  std::array<double, kBlockOfSquares> of_b;
  Squares squares;
  for (int64_t first = 0; first < count; first += kBlockOfSquares) {
    const int64_t size = std::min(kBlockOfSquares, count - first);
    from_a.Convert(a + first * ElementBytes(a_dtype), of_a.data(), size);
    from_b.Convert(b + first * ElementBytes(b_dtype), of_b.data(), size);
    squares.Add(SumF64(reinterpret_cast<const std::byte*>(of_a.data()),
                       reinterpret_cast<const std::byte*>(of_b.data()), size));
  }
  return squares;
}

// The two halves of a complex number, which are two elements.
Dtype HalfOf(Dtype dtype) {
  if (dtype == Dtype::kC32) return Dtype::kF16;
  return dtype == Dtype::kC64 ? Dtype::kF32 : dtype == Dtype::kC128 ? Dtype::kF64 : dtype;
}

}  // namespace

Squares SumSquares(Dtype a_dtype, const std::byte* a, Dtype b_dtype, const std::byte* b,
                   int64_t count) {
  const Dtype x = HalfOf(a_dtype);
  const Dtype y = HalfOf(b_dtype);
  if (x != a_dtype) count *= 2;
  if (x == y && x == Dtype::kBF16) return SumBf16(a, b, count);
  if (x == y && x == Dtype::kF32) return SumF32(a, b, count);
  if (x == y && x == Dtype::kF64) return SumF64(a, b, count);
  return SumConverted(x, a, y, b, count);
}

}  // namespace nxdkit::ops
