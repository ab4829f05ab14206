// PRIVATE to tests: a tensor of a distributed checkpoint, put together element by element.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "formats/dcp/folder.h"

namespace nxdkit::testing_util {

// Elements in several chunks must be the same in all of them.
inline std::string Assemble(const dcp::StoredEntry& entry) {
  const auto element = static_cast<size_t>(ElementBytes(entry.dtype));
  const Shape strides = RowMajorStrides(entry.shape);
  const auto elements = static_cast<size_t>(WholeBox(entry.shape).Volume());
  std::string whole(elements * element, '\0');
  std::vector<bool> seen(elements);
  for (const dcp::StoredChunk& chunk : entry.chunks) {
    EXPECT_EQ(chunk.stored.shape, chunk.box.extent);
    const Shape inner = RowMajorStrides(chunk.box.extent);
    for (int64_t i = 0; i < chunk.box.Volume(); ++i) {
      int64_t to = 0;
      int64_t from = 0;
      for (size_t d = 0; d < inner.size(); ++d) {
        const int64_t at = i / inner[d] % chunk.box.extent[d];
        to += (chunk.box.lo[d] + at) * strides[d];
        from += at * chunk.stored.strides[d];
      }
      std::string bytes(element, '\0');
      EXPECT_TRUE(chunk.stored.storage
                      ->ReadAt(chunk.stored.offset + static_cast<uint64_t>(from) * element,
                               std::as_writable_bytes(std::span(bytes)))
                      .ok());
      const auto place = static_cast<size_t>(to);
      EXPECT_TRUE(!seen[place] || whole.substr(place * element, element) == bytes) << entry.key;
      seen[place] = true;
      whole.replace(place * element, element, bytes);
    }
  }
  for (size_t i = 0; i < elements; ++i) EXPECT_TRUE(seen[i]) << i;
  return whole;
}

}  // namespace nxdkit::testing_util
