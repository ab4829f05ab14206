// The gatherer: right bytes, bounded staging, few reads, nothing read twice.
#include "lib/plan/gather.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/lib/expect_error.h"
#include "tests/lib/plan/plan_fixture.h"

namespace nxdkit {
namespace {

using testing_util::AsNumbers;
using testing_util::CountingStorage;
using testing_util::ExpectError;
using testing_util::Numbers;
using testing_util::Packed;

// The box [lo, lo + extent) of a stored matrix, packed into `out`.
Move BoxMove(const StoredTensor& source, const Shape& lo, const Shape& extent, std::byte* out) {
  Move move{&source, 0, {}, out};
  for (size_t d = 0; d < lo.size(); ++d) move.start += lo[d] * source.strides[d];
  move.copy = {extent, source.strides, RowMajorStrides(extent), source.dtype, source.dtype, false};
  return move;
}

std::vector<uint32_t> ExpectedBox(int64_t columns, const Shape& lo, const Shape& extent) {
  std::vector<uint32_t> out;
  for (int64_t r = lo[0]; r < lo[0] + extent[0]; ++r)
    for (int64_t c = lo[1]; c < lo[1] + extent[1]; ++c)
      out.push_back(static_cast<uint32_t>(r * columns + c));
  return out;
}

class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns)
      : storage(std::make_shared<CountingStorage>(Numbers(rows * columns))),
        tensor(Packed("m", Dtype::kU32, {rows, columns}, storage)) {}
  std::shared_ptr<CountingStorage> storage;
  StoredTensor tensor;
};

TEST(Gather, ReadsADenseBoxStraightIntoPlace) {
  const Matrix m(64, 100);
  const PageBuffer page(32 * 100 * 4);
  const std::span<std::byte> out = page.span();
  Gatherer gatherer(16);  // of no use for staging
  ASSERT_TRUE(gatherer.Run({BoxMove(m.tensor, {8, 0}, {32, 100}, out.data())}).ok());
  EXPECT_EQ(AsNumbers({out.begin(), out.end()}), ExpectedBox(100, {8, 0}, {32, 100}));
  EXPECT_EQ(m.storage->reads(), 1u);
  EXPECT_EQ(m.storage->bytes_read(), out.size());
}

// 8 bytes after the source, modulo a page: through the staging, in as many parts as that needs.
TEST(Gather, GoesRoundSlowCopies) {
  const Matrix m(64, 100);
  const PageBuffer page(32 * 100 * 4 + kPageBytes);
  const uint64_t offset = 8 * 100 * 4;
  const std::span<std::byte> out = page.InStep(offset + 8, 32 * 100 * 4);
  ASSERT_TRUE(CopiesSlowly(offset, out.data()));
  EXPECT_FALSE(CopiesSlowly(offset + 8, out.data()));
  EXPECT_FALSE(CopiesSlowly(offset + 16, out.data()));
  EXPECT_FALSE(CopiesSlowly(offset - 24, out.data()));
  for (const uint64_t staging : {uint64_t{400}, uint64_t{20'000}}) {
    std::ranges::fill(out, std::byte{0xee});
    Gatherer gatherer(staging);
    ASSERT_TRUE(gatherer.Run({BoxMove(m.tensor, {8, 0}, {32, 100}, out.data())}).ok());
    EXPECT_EQ(AsNumbers({out.begin(), out.end()}), ExpectedBox(100, {8, 0}, {32, 100})) << staging;
  }
}

TEST(Gather, ReadsAColumnSliceWithOneReadWhenItIsSmall) {
  const Matrix m(64, 100);
  std::vector<std::byte> out(64 * 10 * 4);
  Gatherer gatherer(64 * 100 * 4);
  ASSERT_TRUE(gatherer.Run({BoxMove(m.tensor, {0, 20}, {64, 10}, out.data())}).ok());
  EXPECT_EQ(AsNumbers(out), ExpectedBox(100, {0, 20}, {64, 10}));
  EXPECT_EQ(m.storage->reads(), 1u);
}

// Staging bounds every read that is not dense, whatever its size.
TEST(Gather, SplitsWhatDoesNotFitTheStaging) {
  const Matrix m(64, 100);
  std::vector<std::byte> out(64 * 10 * 4);
  for (const uint64_t staging : {uint64_t{4}, uint64_t{40}, uint64_t{1000}, uint64_t{4000}}) {
    const uint64_t before = m.storage->reads();
    Gatherer gatherer(staging);
    ASSERT_TRUE(gatherer.Run({BoxMove(m.tensor, {0, 20}, {64, 10}, out.data())}).ok());
    EXPECT_EQ(AsNumbers(out), ExpectedBox(100, {0, 20}, {64, 10})) << staging;
    EXPECT_GT(m.storage->reads() - before, 1u);
  }
}

TEST(Gather, KeepsEveryStagedReadInsideTheStaging) {
  const Matrix m(512, 512);
  std::vector<std::byte> out(512 * 128 * 4);
  Gatherer gatherer(10'000);
  ASSERT_TRUE(gatherer.Run({BoxMove(m.tensor, {0, 0}, {512, 128}, out.data())}).ok());
  EXPECT_EQ(AsNumbers(out), ExpectedBox(512, {0, 0}, {512, 128}));
  EXPECT_LE(m.storage->largest_read(), 10'000u);
}

// One column of a wide matrix: reading all of it for a 4096th of the bytes would be waste.
TEST(Gather, DoesNotReadAWholeMatrixForOneColumn) {
  const Matrix m(256, 4096);
  std::vector<std::byte> out(256 * 4);
  Gatherer gatherer(8 << 20);
  ASSERT_TRUE(gatherer.Run({BoxMove(m.tensor, {0, 17}, {256, 1}, out.data())}).ok());
  EXPECT_EQ(AsNumbers(out), ExpectedBox(4096, {0, 17}, {256, 1}));
  // Reads of up to 64 KiB cost as much as a small one; 4 rows of 16 KiB fit.
  EXPECT_LE(m.storage->largest_read(), 65'536u);
}

// The ranks' column slices overlap as byte ranges: together they are one pass over the source.
TEST(Gather, SharesReadsBetweenOverlappingMoves) {
  const Matrix m(64, 128);
  std::vector<std::vector<std::byte>> parts(4, std::vector<std::byte>(64 * 32 * 4));
  std::vector<Move> moves;
  for (int64_t rank = 3; rank >= 0; --rank)  // any order
    moves.push_back(BoxMove(m.tensor, {0, rank * 32}, {64, 32}, parts[rank].data()));
  Gatherer gatherer(64 * 128 * 4);
  ASSERT_TRUE(gatherer.Run(std::move(moves)).ok());
  for (int64_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(AsNumbers(parts[rank]), ExpectedBox(128, {0, rank * 32}, {64, 32}));
  EXPECT_EQ(m.storage->reads(), 1u);
  EXPECT_EQ(m.storage->bytes_read(), 64u * 128 * 4);
}

// Two tensors that are views of one storage, and one of another storage with the same offsets.
TEST(Gather, TellsStoragesApart) {
  const auto shared = std::make_shared<CountingStorage>(Numbers(64));
  const auto other = std::make_shared<CountingStorage>(Numbers(64, 1000));
  const StoredTensor a = Packed("a", Dtype::kU32, {4, 4}, shared);
  const StoredTensor b = Packed("b", Dtype::kU32, {4, 4}, shared, 16 * 4);
  const StoredTensor c = Packed("c", Dtype::kU32, {4, 4}, other);
  std::vector<std::byte> out_a(8 * 4), out_b(8 * 4), out_c(8 * 4);
  Gatherer gatherer(4096);
  ASSERT_TRUE(
      gatherer
          .Run({BoxMove(c, {0, 0}, {4, 2}, out_c.data()), BoxMove(a, {0, 0}, {4, 2}, out_a.data()),
                BoxMove(b, {0, 0}, {4, 2}, out_b.data())})
          .ok());
  EXPECT_EQ(AsNumbers(out_a), (std::vector<uint32_t>{0, 1, 4, 5, 8, 9, 12, 13}));
  EXPECT_EQ(AsNumbers(out_b), (std::vector<uint32_t>{16, 17, 20, 21, 24, 25, 28, 29}));
  EXPECT_EQ(AsNumbers(out_c),
            (std::vector<uint32_t>{1000, 1001, 1004, 1005, 1008, 1009, 1012, 1013}));
}

TEST(Gather, ReadsTransposedSources) {
  const Matrix m(20, 30);
  std::vector<std::byte> out(20 * 30 * 4);
  Move move{
      &m.tensor, 0, {{30, 20}, {1, 30}, {20, 1}, Dtype::kU32, Dtype::kU32, false}, out.data()};
  for (const uint64_t staging : {uint64_t{4}, uint64_t{100}, uint64_t{1 << 20}}) {
    Gatherer gatherer(staging);
    ASSERT_TRUE(gatherer.Run({move}).ok());
    const std::vector<uint32_t> numbers = AsNumbers(out);
    for (uint32_t c = 0; c < 30; ++c)
      for (uint32_t r = 0; r < 20; ++r) ASSERT_EQ(numbers[c * 20 + r], r * 30 + c);
  }
}

TEST(Gather, ConvertsAndSwapsWhatItStages) {
  // 1.0f and 2.0f, big-endian.
  const std::vector<std::byte> bytes = {std::byte{0x3F}, std::byte{0x80}, std::byte{}, std::byte{},
                                        std::byte{0x40}, std::byte{},     std::byte{}, std::byte{}};
  const StoredTensor tensor =
      Packed("t", Dtype::kF32, {2}, std::make_shared<CountingStorage>(bytes));
  uint16_t out[2] = {};
  Gatherer gatherer(64);
  ASSERT_TRUE(gatherer
                  .Run({{&tensor,
                         0,
                         {{2}, {1}, {1}, Dtype::kF32, Dtype::kBF16, true},
                         reinterpret_cast<std::byte*>(out)}})
                  .ok());
  EXPECT_EQ(out[0], 0x3F80);
  EXPECT_EQ(out[1], 0x4000);
}

TEST(Gather, NamesTheTensorOfAFailedRead) {
  const Matrix m(8, 8);
  m.storage->FailAt(100);
  std::vector<std::byte> out(8 * 8 * 4);
  Gatherer gatherer(1024);
  for (const Shape& extent : {Shape{8, 8}, Shape{8, 3}}) {
    const std::optional<Error> error =
        ExpectError(gatherer.Run({BoxMove(m.tensor, {0, 0}, extent, out.data())}), Errc::kIo,
                    "the disk is broken here");
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->tensor(), "m");
    EXPECT_EQ(error->offset(), 100u);
  }
}

TEST(Gather, RandomBoxesAtEveryStagingSize) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int64_t rows = 1 + static_cast<int64_t>(random() % 40);
    const int64_t columns = 1 + static_cast<int64_t>(random() % 40);
    const Matrix m(rows, columns);
    std::vector<Shape> lows, extents;
    std::vector<std::vector<std::byte>> outs;
    for (size_t i = 0; i < 1 + random() % 5; ++i) {
      const int64_t r = static_cast<int64_t>(random() % rows);
      const int64_t c = static_cast<int64_t>(random() % columns);
      lows.push_back({r, c});
      extents.push_back({1 + static_cast<int64_t>(random() % (rows - r)),
                         1 + static_cast<int64_t>(random() % (columns - c))});
      outs.emplace_back(extents.back()[0] * extents.back()[1] * 4);
    }
    std::vector<Move> moves;
    for (size_t i = 0; i < lows.size(); ++i)
      moves.push_back(BoxMove(m.tensor, lows[i], extents[i], outs[i].data()));
    Gatherer gatherer(4 + random() % 8000);
    ASSERT_TRUE(gatherer.Run(std::move(moves)).ok());
    for (size_t i = 0; i < lows.size(); ++i)
      ASSERT_EQ(AsNumbers(outs[i]), ExpectedBox(columns, lows[i], extents[i])) << "round " << round;
  }
}

// --- clipping and fills

TEST(ClipToSlice, GivesThePartOfTheOpInsideABox) {
  const Matrix m(10, 6);
  // Output [10, 8]: columns 1 to 7 are the source; the box is rows 4 to 6.
  const CopyOp op{0, 0, {{0, 1}, {10, 6}}, 0, {6, 1}};
  std::vector<std::byte> out(2 * 8 * 4, std::byte{0});
  const auto clip = [&](const Box& box) {
    return ClipToSlice(op, m.tensor, SliceOf(box), {8, 1}, Dtype::kU32, out.data());
  };
  const auto move = clip({{4, 0}, {2, 8}});
  ASSERT_TRUE(move.has_value());
  EXPECT_EQ(move->start, 24);
  EXPECT_EQ(move->output, out.data() + 4);
  EXPECT_EQ(move->copy.extent, Shape({2, 6}));
  EXPECT_EQ(clip({{0, 7}, {10, 1}}), std::nullopt);
}

TEST(ClipToSlice, BeginsAtTheFirstIndexOfTheSliceInsideTheOp) {
  const Matrix m(10, 6);
  // Rows 5 to 10 of the output are rows 0 to 5 of the source.
  const CopyOp op{0, 0, {{5, 0}, {5, 6}}, 0, {6, 1}};
  std::vector<std::byte> out(4 * 2 * 4, std::byte{0});
  // Rows 1, 4, 7 and columns 1, 5: row 7 alone is in the op.
  const auto move =
      ClipToSlice(op, m.tensor, {{1, 1}, {9, 6}, {3, 4}}, {2, 1}, Dtype::kU32, out.data());
  ASSERT_TRUE(move.has_value());
  EXPECT_EQ(move->start, 2 * 6 + 1);
  EXPECT_EQ(move->output, out.data() + 2 * 2 * 4);
  EXPECT_EQ(move->copy.extent, Shape({1, 2}));
  EXPECT_EQ(move->copy.source_strides, Shape({6, 4}));
  // Rows 1 and 13: none is in the op.
  EXPECT_EQ(ClipToSlice(op, m.tensor, {{1, 0}, {10, 6}, {12, 1}}, {6, 1}, Dtype::kU32, out.data()),
            std::nullopt);
}

// A step larger than any dimension: it must not be multiplied.
TEST(ClipToSlice, TakesTheLargestStep) {
  const Matrix m(10, 6);
  std::vector<std::byte> out(4);
  const auto move =
      ClipToSlice(CopyWhole(m.tensor, 0), m.tensor, {{3, 2}, {10, 6}, {INT64_MAX, INT64_MAX}},
                  {1, 1}, Dtype::kU32, out.data());
  ASSERT_TRUE(move.has_value());
  EXPECT_EQ(move->start, 3 * 6 + 2);
  EXPECT_EQ(move->copy.extent, Shape({1, 1}));
}

// Tensors of up to three dimensions in random boxes, some of them transposed and some fills, and a
// random slice of each, at every staging size.
TEST(AddSliceMoves, EqualsTheElementsOfRandomSlices) {
  std::mt19937 random(11);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  for (int round = 0; round < 500; ++round) {
    Shape shape(random() % 4);
    for (int64_t& length : shape) length = 1 + below(9);
    BoundLayout source;
    TensorPlan plan;
    std::vector<uint32_t> whole(WholeBox(shape).Volume());
    std::vector<Box> boxes{WholeBox(shape)};
    for (int cut = 0; cut < 4 && !shape.empty(); ++cut) {
      Box box = boxes.front();
      const size_t d = random() % shape.size();
      if (box.extent[d] < 2) continue;
      Box rest = box;
      box.extent[d] = 1 + below(box.extent[d] - 1);
      rest.lo[d] += box.extent[d];
      rest.extent[d] -= box.extent[d];
      boxes.erase(boxes.begin());
      boxes.insert(boxes.end(), {box, rest});
    }
    for (const Box& box : boxes) {
      const auto number = static_cast<uint32_t>(1000 * (boxes.size() + random() % 100));
      const bool fills = random() % 4 == 0;
      Shape strides = RowMajorStrides(box.extent);
      if (random() % 2 == 0) {  // stored with its dimensions in the other order
        Shape turned(box.extent.rbegin(), box.extent.rend());
        strides = RowMajorStrides(turned);
        std::ranges::reverse(strides);
      }
      if (fills) {
        plan.fills.push_back({box, number});
      } else {
        const auto index = static_cast<uint32_t>(source.stored.size());
        source.stored.push_back(testing_util::PackedNumbers("s", {box.Volume()}, number));
        plan.copies.push_back({index, 0, box, 0, strides});
      }
      testing_util::ForEachIndex(box.extent, [&](const Shape& index) {
        Shape at = index;
        for (size_t d = 0; d < at.size(); ++d) at[d] += box.lo[d];
        whole[testing_util::LinearIndex(at, RowMajorStrides(shape))] =
            fills ? number
                  : number + static_cast<uint32_t>(testing_util::LinearIndex(index, strides));
      });
    }
    Slice slice = WholeSlice(shape);
    for (size_t d = 0; d < shape.size(); ++d) {
      slice.begin[d] = below(shape[d] + 1);
      slice.end[d] = slice.begin[d] + below(shape[d] - slice.begin[d] + 1);
      slice.step[d] = 1 + below(4);
    }
    ASSERT_TRUE(CheckSlice(slice, shape).ok());
    std::vector<uint32_t> expected;
    testing_util::ForEachIndex(slice.extent(), [&](const Shape& index) {
      Shape at = slice.begin;
      for (size_t d = 0; d < at.size(); ++d) at[d] += index[d] * slice.step[d];
      expected.push_back(whole[testing_util::LinearIndex(at, RowMajorStrides(shape))]);
    });
    std::vector<std::byte> out(expected.size() * 4);
    std::vector<Move> moves;
    AddSliceMoves(plan, source, Dtype::kU32, slice, RowMajorStrides(slice.extent()), out.data(),
                  moves);
    Gatherer gatherer(4 + random() % 400);
    ASSERT_TRUE(gatherer.Run(std::move(moves)).ok());
    ASSERT_EQ(AsNumbers(out), expected) << "round " << round;
  }
}

TEST(FillSlice, FillsOnlyInsideTheSlice) {
  std::vector<int32_t> out(8, -1);
  const auto fill = [&](const Fill& what, const Slice& slice) {
    FillSlice(what, slice, {4, 1}, Dtype::kI32, reinterpret_cast<std::byte*>(out.data()));
  };
  fill({{{1, 2}, {2, 2}}, 5}, SliceOf({{0, 0}, {2, 4}}));
  EXPECT_EQ(out, (std::vector<int32_t>{-1, -1, -1, -1, -1, -1, 5, 5}));
  // Columns 1, 3, 5, 7 of rows 0 and 4: column 3 of row 4 is in the fill.
  fill({{{4, 2}, {1, 3}}, 6}, {{0, 1}, {5, 8}, {4, 2}});
  EXPECT_EQ(out, (std::vector<int32_t>{-1, -1, -1, -1, -1, 6, 5, 5}));
}

}  // namespace
}  // namespace nxdkit
