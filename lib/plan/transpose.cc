#include "lib/plan/transpose.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace nxdkit {
namespace {

// A tile is as wide as a cache line on both sides: each line is read once and written once. It is
// turned in a buffer, because rows of the output that are a power of two apart share few places in
// the first-level cache.
constexpr int64_t kLine = 64;

// The source and the output of a tile, at its first element; strides in bytes.
struct Tile {
  const std::byte* source;
  std::byte* output;
  int64_t source_stride;
  int64_t output_stride;
};

// Turns a tile of any size.
template <size_t kBytes>
void CopyTile(const Tile& tile, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      Element<kBytes> element;
      std::memcpy(&element, tile.source + r * int64_t{kBytes} + c * tile.source_stride, kBytes);
      std::memcpy(tile.output + r * tile.output_stride + c * int64_t{kBytes}, &element, kBytes);
    }
}

// Turns a whole tile into the buffer `turned`: rows one after the other.
template <size_t kBytes>
void TurnTile(const Tile& tile, std::byte* turned) {
  constexpr int64_t kSide = kLine / int64_t{kBytes};
  CopyTile<kBytes>({tile.source, turned, tile.source_stride, kLine}, kSide, kSide);
}

#if defined(__SSE2__)

__m128i Load(const std::byte* from) {
  __m128i value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

void Store(std::byte* to, __m128i value) { std::memcpy(to, &value, sizeof(value)); }

// Turns eight rows of eight two-byte elements.
void TurnBlock16(const std::byte* source, int64_t stride, std::byte* turned) {
  __m128i a[8], b[8];
  for (int i = 0; i < 8; ++i) a[i] = Load(source + i * stride);
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = _mm_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
    b[2 * i + 1] = _mm_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    a[i] = _mm_unpacklo_epi32(b[i], b[i + 2]);
    a[i + 1] = _mm_unpackhi_epi32(b[i], b[i + 2]);
    a[i + 2] = _mm_unpacklo_epi32(b[i + 1], b[i + 3]);
    a[i + 3] = _mm_unpackhi_epi32(b[i + 1], b[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    Store(turned + 2 * i * kLine, _mm_unpacklo_epi64(a[i], a[i + 4]));
    Store(turned + (2 * i + 1) * kLine, _mm_unpackhi_epi64(a[i], a[i + 4]));
  }
}

// Turns four rows of four four-byte elements.
void TurnBlock32(const std::byte* source, int64_t stride, std::byte* turned) {
  const __m128i a = Load(source), b = Load(source + stride);
  const __m128i c = Load(source + 2 * stride), d = Load(source + 3 * stride);
  const __m128i ab0 = _mm_unpacklo_epi32(a, b), ab1 = _mm_unpackhi_epi32(a, b);
  const __m128i cd0 = _mm_unpacklo_epi32(c, d), cd1 = _mm_unpackhi_epi32(c, d);
  Store(turned, _mm_unpacklo_epi64(ab0, cd0));
  Store(turned + kLine, _mm_unpackhi_epi64(ab0, cd0));
  Store(turned + 2 * kLine, _mm_unpacklo_epi64(ab1, cd1));
  Store(turned + 3 * kLine, _mm_unpackhi_epi64(ab1, cd1));
}

template <>
void TurnTile<2>(const Tile& tile, std::byte* turned) {
  for (int64_t r = 0; r < 32; r += 8)
    for (int64_t c = 0; c < 32; c += 8)
      TurnBlock16(tile.source + r * 2 + c * tile.source_stride, tile.source_stride,
                  turned + r * kLine + c * 2);
}

template <>
void TurnTile<4>(const Tile& tile, std::byte* turned) {
  for (int64_t r = 0; r < 16; r += 4)
    for (int64_t c = 0; c < 16; c += 4)
      TurnBlock32(tile.source + r * 4 + c * tile.source_stride, tile.source_stride,
                  turned + r * kLine + c * 4);
}

#endif

template <size_t kBytes>
void CopyWhole(const Tile& tile) {
  alignas(kLine) std::array<std::byte, kLine * kLine / kBytes> turned;
  TurnTile<kBytes>(tile, turned.data());
  for (int64_t r = 0; r < kLine / int64_t{kBytes}; ++r)
    std::memcpy(tile.output + r * tile.output_stride, turned.data() + r * kLine, kLine);
}

template <size_t kBytes>
void Copy(int64_t rows, int64_t columns, const Tile& plane) {
  constexpr int64_t kSide = kLine / int64_t{kBytes};
  for (int64_t r = 0; r < rows; r += kSide)
    for (int64_t c = 0; c < columns; c += kSide) {
      const Tile tile{plane.source + r * int64_t{kBytes} + c * plane.source_stride,
                      plane.output + r * plane.output_stride + c * int64_t{kBytes},
                      plane.source_stride, plane.output_stride};
      if (rows - r >= kSide && columns - c >= kSide)
        CopyWhole<kBytes>(tile);
      else
        CopyTile<kBytes>(tile, std::min(kSide, rows - r), std::min(kSide, columns - c));
    }
}

}  // namespace

void CopyTransposed(int64_t bytes, int64_t rows, int64_t columns, int64_t source_stride,
                    int64_t output_stride, const std::byte* source, std::byte* output) {
  constexpr void (*kCopies[])(int64_t, int64_t, const Tile&) = {Copy<1>, Copy<2>, Copy<4>, Copy<8>,
                                                                Copy<16>};
  const Tile plane{source, output, source_stride * bytes, output_stride * bytes};
  kCopies[SizeIndex(bytes)](rows, columns, plane);
}

}  // namespace nxdkit
