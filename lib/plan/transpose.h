// The inner loop of copies that turn rows into columns, such as those of experts, which are stored
// as [in, out] on one side and as [out, in] on the other.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "lib/base/error.h"

namespace nxdkit {

// One element, as a copy moves it.
template <size_t kBytes>
struct Element {
  std::array<std::byte, kBytes> bytes;
};

// The index of an element size in a table: 0 for 1 byte, to 4 for 16 bytes.
inline size_t SizeIndex(int64_t element_bytes) {
  const auto bytes = static_cast<uint64_t>(element_bytes);
  NXDKIT_CHECK(bytes <= 16 && std::has_single_bit(bytes));
  return static_cast<size_t>(std::countr_zero(bytes));
}

// Copies `rows` x `columns` elements of `bytes` bytes each (1, 2, 4, 8 or 16): element (r, c) from
// source[r + c * source_stride] to output[r * output_stride + c], strides in elements. No alignment
// is assumed. The areas must not overlap.
void CopyTransposed(int64_t bytes, int64_t rows, int64_t columns, int64_t source_stride,
                    int64_t output_stride, const std::byte* source, std::byte* output);

}  // namespace nxdkit
