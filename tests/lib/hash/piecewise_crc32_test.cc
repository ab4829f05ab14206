#include "lib/hash/piecewise_crc32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "lib/hash/crc32.h"

namespace nxdkit {
namespace {

std::vector<std::byte> SomeBytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * i >> 3);
  return bytes;
}

TEST(PiecewiseCrc32, AnyOrderGivesTheCrcOfTheWhole) {
  constexpr size_t kPart = 97;
  const std::vector<std::byte> bytes = SomeBytes(50 * kPart);
  const std::span<const std::byte> span(bytes);
  std::vector<size_t> order(50);
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  PiecewiseCrc32 parts;
  for (const size_t i : order)
    EXPECT_TRUE(parts.Add(i * kPart, kPart, Crc32(0, span.subspan(i * kPart, kPart))));
  EXPECT_EQ(parts.size(), 1u) << "neighbours become one";
  EXPECT_EQ(parts.FromStart().bytes, bytes.size());
  EXPECT_EQ(parts.FromStart().crc, Crc32(0, bytes));
}

TEST(PiecewiseCrc32, AByteIsAddedOnce) {
  PiecewiseCrc32 parts;
  EXPECT_TRUE(parts.Add(10, 10, 1));
  EXPECT_FALSE(parts.Add(10, 10, 2));
  EXPECT_FALSE(parts.Add(19, 1, 2));
  EXPECT_FALSE(parts.Add(5, 6, 2));
  EXPECT_FALSE(parts.Add(0, 100, 2));
  EXPECT_FALSE(parts.Add(UINT64_MAX, 2, 2)) << "beyond the last offset";
  EXPECT_EQ(parts.bytes(), 10u);
  EXPECT_EQ(parts.FromStart().bytes, 0u) << "what comes before is missing";
}

TEST(PiecewiseCrc32, MissingIsWhatWasNotAdded) {
  PiecewiseCrc32 parts;
  parts.Add(10, 10, 1);
  parts.Add(30, 10, 1);
  const auto text = [&](uint64_t begin, uint64_t end) {
    std::string out;
    for (const PiecewiseCrc32::Range& range : parts.Missing(begin, end))
      out += std::to_string(range.begin) + "-" + std::to_string(range.end) + " ";
    return out;
  };
  EXPECT_EQ(text(0, 50), "0-10 20-30 40-50 ");
  EXPECT_EQ(text(15, 35), "20-30 ");
  EXPECT_EQ(text(12, 18), "");
  EXPECT_EQ(text(20, 30), "20-30 ");
  EXPECT_EQ(text(45, 45), "");
}

}  // namespace
}  // namespace nxdkit
