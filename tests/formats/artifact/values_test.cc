// The result of a scan of values: over the ends of blocks and chunks, in every dtype, piece by
// piece.
#include "formats/artifact/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/artifact/value_kernels.h"
#include "lib/tensor/tally.h"

namespace nxdkit::ops {
namespace {

// One tensor that is one parameter, seen in chunks of `chunk` bytes.
template <typename Bits>
std::vector<ParamValues> Seen(Dtype dtype, const std::vector<Bits>& elements, size_t chunk) {
  const Shape shape = {static_cast<int64_t>(elements.size())};
  Layout layout;
  layout.tensors.push_back(WholeTensor("w", 0, 0, shape));
  const std::vector<OutputTensor> tensors = {{"w", dtype, shape}};
  ValueScan scan(layout, tensors);
  const auto bytes = std::as_bytes(std::span(elements));
  for (size_t at = 0; at < bytes.size(); at += chunk)
    scan.Add(0, at, bytes.subspan(at, std::min(chunk, bytes.size() - at)));
  EXPECT_TRUE(scan.Saw(0));
  return scan.Params();
}

TEST(Values, AreCountedOverTheEndsOfBlocks) {
  std::vector<uint16_t> halves(70'001, 0x3f80);
  EXPECT_TRUE(Seen(Dtype::kBF16, halves, 1 << 20).empty());
  for (const size_t at : {8'191, 8'192, 16'383, 16'384, 65'535, 70'000}) halves[at] = 0x7f80;
  halves[50] = 0xff80;  // minus infinity
  halves[60] = 0x7f81;  // not a number
  halves[70] = 0x7f7f;  // the largest number
  for (const size_t chunk : {size_t{1} << 20, size_t{64}, size_t{2}}) {
    const auto params = Seen(Dtype::kBF16, halves, chunk);
    ASSERT_EQ(params.size(), 1u);
    EXPECT_EQ(params[0].inf, 7u);
    EXPECT_EQ(params[0].nan, 1u);
    EXPECT_EQ(params[0].element, 50);
    EXPECT_EQ(params[0].found, "-inf (0xff80)");
    EXPECT_FALSE(params[0].zero);
    EXPECT_EQ(NotFiniteText(params[0]), "1 element is NaN and 7 elements are infinite");
  }
}

TEST(Values, OfEachDtypeAreWhatItSays) {
  struct Row {
    Dtype dtype;
    std::vector<std::byte> element;  // little-endian
    uint64_t nan;
    uint64_t inf;
  };
  const auto bytes = [](std::initializer_list<int> list) {
    std::vector<std::byte> out;
    for (const int byte : list) out.push_back(static_cast<std::byte>(byte));
    return out;
  };
  const Row rows[] = {
      {Dtype::kF16, bytes({0x01, 0x7c}), 1, 0},
      {Dtype::kF16, bytes({0x00, 0xfc}), 0, 1},
      {Dtype::kBF16, bytes({0x80, 0x7f}), 0, 1},
      {Dtype::kF32, bytes({0, 0, 0xc0, 0x7f}), 1, 0},
      {Dtype::kF32, bytes({0, 0, 0x80, 0xff}), 0, 1},
      {Dtype::kF64, bytes({0, 0, 0, 0, 0, 0, 0xf0, 0x7f}), 0, 1},
      {Dtype::kF64, bytes({1, 0, 0, 0, 0, 0, 0xf0, 0xff}), 1, 0},
      {Dtype::kF8E5M2, bytes({0x7c}), 0, 1},
      {Dtype::kF8E5M2, bytes({0xfe}), 1, 0},
      {Dtype::kF8E4M3, bytes({0xff}), 1, 0},
      {Dtype::kF8E4M3Fnuz, bytes({0x80}), 1, 0},
      {Dtype::kF8E8M0, bytes({0xff}), 1, 0},
  };
  for (const Row& row : rows) {
    EXPECT_FALSE(AllFinite(row.dtype, row.element)) << Name(row.dtype);
    EXPECT_FALSE(AllZero(row.dtype, row.element)) << Name(row.dtype);
    ASSERT_EQ(row.element.size(), static_cast<size_t>(ElementBytes(row.dtype)));
    const Tally tally = TallyElements(row.dtype, row.element.data(), 1);
    EXPECT_EQ(tally.nan, row.nan) << Name(row.dtype);
    EXPECT_EQ(tally.inf, row.inf) << Name(row.dtype);
  }
  EXPECT_FALSE(HasValues(Dtype::kI32));
  EXPECT_FALSE(HasValues(Dtype::kC64));
  EXPECT_FALSE(HasValues(Dtype::kF4));
}

// The fast answers equal those of counting, whatever the bits.
TEST(Values, TheFastAnswersAreThoseOfCounting) {
  for (int d = 0; d < kDtypeCount; ++d) {
    const auto dtype = static_cast<Dtype>(d);
    if (!HasValues(dtype)) continue;
    const auto size = static_cast<size_t>(ElementBytes(dtype));
    for (int top = 0; top < 256; ++top)
      for (const int next : {0x00, 0x01, 0x7c, 0x7f, 0x80, 0xf0, 0xff}) {
        std::vector<std::byte> element(size, std::byte{0});
        element[size - 1] = static_cast<std::byte>(top);
        if (size > 1) element[size - 2] = static_cast<std::byte>(next);
        const Tally tally = TallyElements(dtype, element.data(), 1);
        ASSERT_EQ(AllFinite(dtype, element), tally.nan + tally.inf == 0) << Name(dtype) << top;
        ASSERT_EQ(AllZero(dtype, element), tally.zeros == 1) << Name(dtype) << top;
      }
  }
}

TEST(Values, ZerosOfBothSignsAreZeros) {
  std::vector<uint32_t> words(70'001, 0x80000000);
  words[5] = 0;
  auto params = Seen(Dtype::kF32, words, 64);
  ASSERT_EQ(params.size(), 1u);
  EXPECT_TRUE(params[0].zero);
  words[70'000] = 1;  // the smallest number
  EXPECT_TRUE(Seen(Dtype::kF32, words, 64).empty());
}

// Two parameters side by side in the rows of one tensor, and a copy of one in another.
class FusedValues : public ::testing::Test {
 protected:
  FusedValues() {
    TensorLayout fused;
    fused.name = "fused";
    fused.shape = {4, 6};
    AddColumns(fused, 0, {4, 3}, 0, 3, 0);
    AddColumns(fused, 1, {4, 3}, 0, 3, 3);
    layout_.tensors.push_back(fused);
    layout_.tensors.push_back(WholeTensor("copy", 0, 1, {4, 3}));
  }
  std::vector<ParamValues> Params() {
    ValueScan scan(layout_, tensors_);
    const auto bytes = std::as_bytes(std::span(fused_));
    for (size_t at = 0; at < bytes.size(); at += 20)  // five elements
      scan.Add(0, at, bytes.subspan(at, std::min<size_t>(20, bytes.size() - at)));
    if (see_copy_) scan.Add(1, 0, std::as_bytes(std::span(copy_)));
    return scan.Params();
  }
  Layout layout_;
  const std::vector<OutputTensor> tensors_ = {{"fused", Dtype::kF32, {4, 6}},
                                              {"copy", Dtype::kF32, {4, 3}}};
  std::vector<float> fused_ = std::vector<float>(24, 1.0F);
  std::vector<float> copy_ = std::vector<float>(12, 1.0F);
  bool see_copy_ = true;
};

TEST_F(FusedValues, EachPieceIsLookedAtByItself) {
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 3; ++column) fused_[row * 6 + column] = 0;
  fused_[2 * 6 + 4] = std::numeric_limits<float>::quiet_NaN();
  copy_[2 * 3 + 1] = fused_[2 * 6 + 4];
  const auto params = Params();
  ASSERT_EQ(params.size(), 2u);
  EXPECT_EQ(params[0].param, 0u);
  EXPECT_TRUE(params[0].zero);
  EXPECT_EQ(params[0].nan, 0u);
  EXPECT_EQ(params[1].param, 1u);
  EXPECT_FALSE(params[1].zero);
  EXPECT_EQ(params[1].nan, 1u);  // once, in spite of the copy
  EXPECT_EQ(params[1].tensor, 0u);
  EXPECT_EQ(params[1].element, 2 * 6 + 4);
}

TEST_F(FusedValues, OneElementAnywhereIsEnough) {
  std::ranges::fill(copy_, 0.0F);
  EXPECT_TRUE(Params().empty());
}

TEST_F(FusedValues, WhatWasNotSeenIsNotCalledZero) {
  std::ranges::fill(fused_, 0.0F);
  see_copy_ = false;
  const auto params = Params();
  ASSERT_EQ(params.size(), 1u);
  EXPECT_EQ(params[0].param, 0u);
}

}  // namespace
}  // namespace nxdkit::ops
