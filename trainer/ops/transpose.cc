#include "trainer/ops/transpose.h"

#include <algorithm>
#include <cstring>

#include "trainer/ops/parallel.h"

namespace nxdkit::trainer {
namespace {

constexpr int64_t kSide = 8;  // of the squares that are turned in registers
// Columns per task, and rows that a square's neighbours cover before the next columns: what is
// written in one go fills cache lines.
constexpr int64_t kColumns = 64;
constexpr int64_t kRows = 64;

using Words = uint16_t __attribute__((vector_size(16)));

// clang knows the one only, g++ 11 the other.
#ifdef __clang__
#define NXDKIT_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define NXDKIT_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Words{__VA_ARGS__})
#endif

// Halves of two vectors, element by element, pair by pair, four by four: three rounds turn a
// square. By reference: how a vector is passed depends on the instruction set.
inline void Low1(const Words& a, const Words& b, Words& to) {
  to = NXDKIT_SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
inline void High1(const Words& a, const Words& b, Words& to) {
  to = NXDKIT_SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
inline void Low2(const Words& a, const Words& b, Words& to) {
  to = NXDKIT_SHUFFLE(a, b, 0, 1, 8, 9, 2, 3, 10, 11);
}
inline void High2(const Words& a, const Words& b, Words& to) {
  to = NXDKIT_SHUFFLE(a, b, 4, 5, 12, 13, 6, 7, 14, 15);
}
inline void Low4(const Words& a, const Words& b, Words& to) {
  to = NXDKIT_SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
}
inline void High4(const Words& a, const Words& b, Words& to) {
  to = NXDKIT_SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}

inline void TurnSquare(const uint16_t* from, int64_t from_stride, uint16_t* to, int64_t to_stride) {
  Words r[kSide], s[kSide];
  for (int64_t i = 0; i < kSide; ++i) std::memcpy(&r[i], from + i * from_stride, sizeof r[i]);
  for (int i = 0; i < 4; ++i) {
    Low1(r[2 * i], r[2 * i + 1], s[2 * i]);
    High1(r[2 * i], r[2 * i + 1], s[2 * i + 1]);
  }
  for (int i : {0, 4})
    for (int k : {0, 1}) {
      Low2(s[i + k], s[i + k + 2], r[i + 2 * k]);
      High2(s[i + k], s[i + k + 2], r[i + 2 * k + 1]);
    }
  for (int i = 0; i < 4; ++i) {
    Low4(r[i], r[i + 4], s[2 * i]);
    High4(r[i], r[i + 4], s[2 * i + 1]);
  }
  for (int64_t i = 0; i < kSide; ++i) std::memcpy(to + i * to_stride, &s[i], sizeof s[i]);
}

void TurnBlock(int64_t rows, int64_t columns, const uint16_t* from, int64_t from_stride,
               uint16_t* to, int64_t to_stride) {
  const int64_t whole_rows = rows / kSide * kSide;
  const int64_t whole_columns = columns / kSide * kSide;
  for (int64_t c = 0; c < whole_columns; c += kSide)
    for (int64_t r = 0; r < whole_rows; r += kSide)
      TurnSquare(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = c < whole_columns ? whole_rows : 0; r < rows; ++r)
      to[c * to_stride + r] = from[r * from_stride + c];
}

}  // namespace

void Transpose(int64_t rows, int64_t columns, const uint16_t* from, int64_t from_stride,
               uint16_t* to, int64_t to_stride) {
  ParallelPieces(columns, kColumns, [&](int64_t first, int64_t end) {
    for (int64_t r = 0; r < rows; r += kRows)
      TurnBlock(std::min(kRows, rows - r), end - first, from + r * from_stride + first, from_stride,
                to + first * to_stride + r, to_stride);
  });
}

}  // namespace nxdkit::trainer
