// The contents of a block, bit for bit, and the blocks that are refused.
#include "formats/delta/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/lib/expect_error.h"

namespace nxdkit::delta {
namespace {

using ::testing::ElementsAre;
using testing_util::ExpectError;
using Bytes = std::vector<std::byte>;

template <typename T>
Bytes BytesOf(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Bytes Encode(Dtype dtype, Coding coding, const Bytes& base, const Bytes& result) {
  BlockEncoder encoder;
  Bytes block;
  const Result<uint64_t> changed = encoder.Encode(dtype, coding, base, result, block);
  EXPECT_TRUE(changed.ok()) << changed.error().ToString();
  return block;
}

Status Decode(Dtype dtype, uint64_t elements, const Bytes& block, Changes& changes) {
  BlockDecoder decoder;
  return decoder.Decode(dtype, elements, block, changes);
}

Changes Decoded(Dtype dtype, uint64_t elements, const Bytes& block) {
  Changes changes;
  const Status decoded = Decode(dtype, elements, block, changes);
  EXPECT_TRUE(decoded.ok()) << decoded.error().ToString();
  return changes;
}

struct Case {
  const char* name;
  Dtype dtype;
  Coding coding;
};
class BlockOf : public ::testing::TestWithParam<Case> {};

// Bits of every kind: NaN, infinities, both zeros, subnormals.
TEST_P(BlockOf, RandomBitsComeBack) {
  std::mt19937_64 random(1);
  const uint64_t width = static_cast<uint64_t>(ElementBytes(GetParam().dtype));
  for (const int percent : {0, 1, 30, 100}) {
    for (const uint64_t elements :
         {uint64_t{1}, uint64_t{7}, uint64_t{1000}, kBlockBytes / width}) {
      Bytes base(elements * width);
      for (std::byte& byte : base) byte = static_cast<std::byte>(random());
      Bytes result = base;
      uint64_t expected = 0;
      for (uint64_t i = 0; i < elements; ++i) {
        if (random() % 100 >= static_cast<uint64_t>(percent)) continue;
        result[i * width + random() % width] ^= static_cast<std::byte>(1 << random() % 8);
        ++expected;
      }
      BlockEncoder encoder;
      Bytes block;
      const Result<uint64_t> changed =
          encoder.Encode(GetParam().dtype, GetParam().coding, base, result, block);
      ASSERT_TRUE(changed.ok()) << changed.error().ToString();
      EXPECT_EQ(*changed, expected);
      EXPECT_EQ(block.empty(), expected == 0);
      if (expected == 0) continue;
      const Changes changes = Decoded(GetParam().dtype, elements, block);
      EXPECT_EQ(changes.at.size(), expected);
      Bytes whole = base;
      Apply(changes, GetParam().dtype, GetParam().coding, 0, whole);
      EXPECT_TRUE(whole == result) << percent << " % of " << elements;
      // In parts, as a reader of ranges requests it.
      Bytes parts = base;
      for (uint64_t first = 0; first < elements;) {
        const uint64_t count = std::min<uint64_t>(elements - first, 1 + random() % elements);
        Apply(changes, GetParam().dtype, GetParam().coding, first,
              std::span(parts).subspan(first * width, count * width));
        first += count;
      }
      EXPECT_TRUE(parts == result) << percent << " % of " << elements;
    }
  }
}

const Case kCases[] = {
    {"BF16Raw", Dtype::kBF16, Coding::kRaw}, {"BF16Ulp", Dtype::kBF16, Coding::kUlp},
    {"F16Ulp", Dtype::kF16, Coding::kUlp},   {"F32Raw", Dtype::kF32, Coding::kRaw},
    {"F32Ulp", Dtype::kF32, Coding::kUlp},   {"F64Ulp", Dtype::kF64, Coding::kUlp},
    {"I32Ulp", Dtype::kI32, Coding::kUlp},   {"U8Raw", Dtype::kU8, Coding::kRaw},
    {"F8Ulp", Dtype::kF8E4M3, Coding::kUlp}, {"C64Raw", Dtype::kC64, Coding::kRaw}};
INSTANTIATE_TEST_SUITE_P(All, BlockOf, ::testing::ValuesIn(kCases),
                         [](const auto& row) { return row.param.name; });

// The stored numbers of one changed bf16 element.
uint64_t Stored(Coding coding, uint16_t base, uint16_t result) {
  const Bytes block =
      Encode(Dtype::kBF16, coding, BytesOf<uint16_t>({base}), BytesOf<uint16_t>({result}));
  return Decoded(Dtype::kBF16, 1, block).values.at(0);
}

TEST(Block, RawIsTheNewBits) { EXPECT_EQ(Stored(Coding::kRaw, 0x3f80, 0xbf12), 0xbf12u); }

TEST(Block, UlpIsTheNumberOfValuesMovedInZigzag) {
  EXPECT_EQ(Stored(Coding::kUlp, 0x3f80, 0x3f81), 2u) << "1.0 up by one";
  EXPECT_EQ(Stored(Coding::kUlp, 0x3f80, 0x3f7f), 1u) << "1.0 down by one";
  EXPECT_EQ(Stored(Coding::kUlp, 0xbf80, 0xbf81), 1u) << "-1.0 down by one";
  EXPECT_EQ(Stored(Coding::kUlp, 0x0000, 0x8000), 1u) << "+0 to -0";
  EXPECT_EQ(Stored(Coding::kUlp, 0x8001, 0x0001), 6u) << "over both zeros";
  EXPECT_EQ(Stored(Coding::kUlp, 0xffff, 0x7fff), 1u)
      << "around, from the lowest NaN to the highest";
}

TEST(Block, IsTheseBytes) {
  // Elements 1 and 200 of 201 changed.
  std::vector<uint16_t> base(201, 0x3f80);
  std::vector<uint16_t> result = base;
  result[1] = 0x3f81;
  result[200] = 0x4000;
  const Bytes block = Encode(Dtype::kBF16, Coding::kRaw, BytesOf(base), BytesOf(result));
  const std::vector<uint8_t> expected = {2,    0,    0, 0,  // changes
                                         3,    0,    0, 0,  // bytes of gaps
                                         3,    0,    0, 0,  // stored
                                         2,    0,    0, 0,  // stored bytes of the low plane
                                         2,    0,    0, 0,  // and of the high one
                                         1,    0xc6, 1,     // 1 unchanged before, then 198
                                         0x81, 0x00,        // low bytes
                                         0x3f, 0x40};
  EXPECT_TRUE(block == BytesOf(expected));
}

// --- refused blocks

Bytes Sample() {
  std::vector<uint16_t> base(4096, 0x3f80);
  std::vector<uint16_t> result = base;
  for (size_t i = 5; i < result.size(); i += 10) result[i] = static_cast<uint16_t>(0x3f00 + i % 3);
  return Encode(Dtype::kBF16, Coding::kRaw, BytesOf(base), BytesOf(result));
}

TEST(BlockFaults, EveryPrefixIsRefused) {
  const Bytes block = Sample();
  ASSERT_GT(block.size(), 60u);
  for (size_t size = 0; size < block.size(); ++size) {
    Changes changes;
    const Status decoded =
        Decode(Dtype::kBF16, 4096,
               Bytes(block.begin(), block.begin() + static_cast<ptrdiff_t>(size)), changes);
    ASSERT_FALSE(decoded.ok()) << size;
    EXPECT_EQ(decoded.error().code(), Errc::kCorrupt) << size;
    EXPECT_TRUE(decoded.error().offset().has_value()) << size;
  }
}

// Whatever the bits say, positions ascend and stay inside.
TEST(BlockFaults, EveryFlippedBitGivesAnErrorOrPlausibleChanges) {
  const Bytes block = Sample();
  int refused = 0;
  for (size_t bit = 0; bit < block.size() * 8; ++bit) {
    Bytes damaged = block;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    Changes changes;
    const Status decoded = Decode(Dtype::kBF16, 4096, damaged, changes);
    if (!decoded.ok()) {
      EXPECT_EQ(decoded.error().code(), Errc::kCorrupt) << bit;
      ++refused;
      continue;
    }
    ASSERT_EQ(changes.at.size(), changes.values.size());
    EXPECT_TRUE(std::is_sorted(changes.at.begin(), changes.at.end(), std::less_equal<>())) << bit;
    EXPECT_LT(changes.at.back(), 4096u) << bit;
  }
  EXPECT_GT(refused, 100);
}

struct Fault {
  const char* name;
  std::vector<uint8_t> block;
  uint64_t offset;
  const char* part;
};
class BlockFault : public ::testing::TestWithParam<Fault> {};

TEST_P(BlockFault, IsNamed) {
  Changes changes;
  const auto error = ExpectError(Decode(Dtype::kU8, 300, BytesOf(GetParam().block), changes),
                                 Errc::kCorrupt, GetParam().part);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->offset(), GetParam().offset);
}

const Fault kFaults[] = {
    {"TooShort", {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}, 0, "15 bytes, expected 16"},
    {"NoChanges",
     {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0},
     0,
     "0 changes, expected 1 to 300"},
    {"TooMany",
     {45, 1, 0, 0, 45, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0},
     0,
     "301 changes, expected 1 to 300"},
    {"FewGapBytes",
     {2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0},
     4,
     "1 bytes of gaps for 2 changes"},
    {"ManyGapBytes",
     {1, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0},
     4,
     "4 bytes of gaps for 1 changes"},
    {"EmptySection",
     {1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0},
     8,
     "a section of 0 bytes"},
    {"LongSection",
     {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0},
     12,
     "a section of 2 bytes, expected 1 to 1, 2 are left"},
    {"NotZstd",
     {3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 9, 9, 0, 0, 0},
     16,
     "does not decompress"},
    {"GapCutOff",
     {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0x80, 0},
     16,
     "end within a number"},
    {"GapTooWide",
     {1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0x80, 0, 0},
     16,
     "more bytes than it needs"},
    {"GapTooLong",
     {1, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0},
     16,
     "more than 3 bytes"},
    {"PastTheEnd",
     {1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0xac, 2, 0},
     16,
     "a change at element 300, but the block has 300"},
    {"GapsLeftOver",
     {1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 3, 0},
     16,
     "1 bytes are left after the last gap"},
    {"BytesLeftOver",
     {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3, 7, 0},
     18,
     "1 bytes are left after the last section"},
};
INSTANTIATE_TEST_SUITE_P(All, BlockFault, ::testing::ValuesIn(kFaults),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace nxdkit::delta
