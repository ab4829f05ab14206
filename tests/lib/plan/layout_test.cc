// Boxes, the builders of pieces, and every fault that CheckLayout names.
#include "lib/plan/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "tests/lib/expect_error.h"
#include "tests/lib/plan/plan_fixture.h"

namespace nxdkit {
namespace {

using ::testing::IsEmpty;
using testing_util::ExpectError;
using testing_util::LayoutOf;
using testing_util::RowsOf;
using testing_util::WholeOf;

Box MakeBox(Shape lo, Shape extent) { return {std::move(lo), std::move(extent)}; }

TEST(Boxes, HaveAVolume) {
  EXPECT_EQ(MakeBox({0, 2}, {3, 4}).Volume(), 12);
  EXPECT_EQ(MakeBox({0, 2}, {3, 0}).Volume(), 0);
  EXPECT_EQ(MakeBox({}, {}).Volume(), 1);
  EXPECT_EQ(BoxText(MakeBox({0, 2}, {3, 4})), "[0:3, 2:6]");
  EXPECT_EQ(BoxText(MakeBox({}, {})), "[]");
}

TEST(Boxes, Intersect) {
  EXPECT_EQ(Intersect(MakeBox({0, 0}, {4, 4}), MakeBox({2, 3}, {4, 4})), MakeBox({2, 3}, {2, 1}));
  EXPECT_EQ(Intersect(MakeBox({0}, {4}), MakeBox({4}, {4})), std::nullopt) << "they only touch";
  EXPECT_EQ(Intersect(MakeBox({0}, {4}), MakeBox({2}, {0})), std::nullopt) << "one is empty";
  EXPECT_EQ(Intersect(MakeBox({}, {}), MakeBox({}, {})), MakeBox({}, {})) << "rank 0";
}

// Every range of every shape: the boxes list its elements in order.
TEST(Boxes, OfARangeAreItsElementsInOrder) {
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{1, 5}, Shape{3, 4}, Shape{2, 3, 2}, Shape{2, 1, 3}}) {
    const int64_t volume = WholeBox(shape).Volume();
    const Shape strides = RowMajorStrides(shape);
    for (int64_t first = 0; first < volume; ++first)
      for (int64_t end = first + 1; end <= volume; ++end) {
        int64_t at = first;
        const std::vector<Box> boxes = RangeBoxes(shape, first, end);
        EXPECT_LE(boxes.size(), std::max<size_t>(1, 2 * shape.size()));
        for (const Box& box : boxes) {
          int64_t linear = 0;
          for (size_t d = 0; d < shape.size(); ++d) linear += box.lo[d] * strides[d];
          EXPECT_EQ(linear, at) << BoxText(box) << " of " << ShapeText(shape);
          EXPECT_EQ(Intersect(box, WholeBox(shape)), box);
          at += box.Volume();
        }
        EXPECT_EQ(at, end) << ShapeText(shape) << " from " << first;
      }
  }
}

// Every pair of boxes of a 4 x 3 grid: the rest is disjoint, outside b, and complete.
TEST(Boxes, SubtractLeavesEachElementOutsideOnce) {
  std::vector<Box> boxes;
  for (int64_t r0 = 0; r0 < 4; ++r0)
    for (int64_t r1 = r0 + 1; r1 <= 4; ++r1)
      for (int64_t c0 = 0; c0 < 3; ++c0)
        for (int64_t c1 = c0 + 1; c1 <= 3; ++c1)
          boxes.push_back(MakeBox({r0, c0}, {r1 - r0, c1 - c0}));
  for (const Box& a : boxes)
    for (const Box& b : boxes) {
      const std::vector<Box> rest = Subtract(a, b);
      ASSERT_LE(rest.size(), 4u);
      testing_util::ForEachIndex({4, 3}, [&](const Shape& index) {
        const Box point{index, {1, 1}};
        int found = 0;
        for (const Box& part : rest) found += Intersect(part, point) ? 1 : 0;
        const int expected = Intersect(a, point) && !Intersect(b, point) ? 1 : 0;
        ASSERT_EQ(found, expected)
            << BoxText(a) << " minus " << BoxText(b) << " at " << BoxText(point);
      });
    }
}

TEST(Boxes, SubtractOfAnEmptyBoxChangesNothing) {
  const Box a = MakeBox({0, 0}, {2, 2});
  EXPECT_THAT(Subtract(a, MakeBox({1, 1}, {0, 1})), ::testing::ElementsAre(a));
  EXPECT_THAT(Subtract(a, a), IsEmpty());
}

const Shape kShape = {8, 6};
const std::vector<LogicalTensor> kParams = {{"w", kShape, 0, 0}, {"bias", {8}, 0, 0}};

TEST(Builders, GrowARunOfRowsIntoOnePiece) {
  TensorLayout tensor{"t", 0, {6, 6}, std::nullopt, {}, {}};
  AddRows(tensor, 0, kShape, 2, 2, 0);
  AddRows(tensor, 0, kShape, 4, 2, 2);
  AddRows(tensor, 0, kShape, 0, 2, 4);  // goes back: a piece of its own
  AddRows(tensor, 0, kShape, 2, 0, 6);  // no rows: no piece
  ASSERT_EQ(tensor.pieces.size(), 2u);
  EXPECT_EQ(tensor.pieces[0].logical, MakeBox({2, 0}, {4, 6}));
  EXPECT_EQ(tensor.pieces[1].stored_lo, Shape({4, 0}));
}

TEST(Builders, DoNotJoinRowsThatAreApartInStorage) {
  TensorLayout tensor{"t", 0, {5, 6}, std::nullopt, {}, {}};
  AddRows(tensor, 0, kShape, 0, 2, 0);
  AddRows(tensor, 0, kShape, 2, 2, 3);
  EXPECT_EQ(tensor.pieces.size(), 2u);
  AddZeros(tensor, 0, 2, 1);
  EXPECT_TRUE(CheckLayout(kParams, LayoutOf({tensor})).ok());
}

TEST(Builders, TransposeExchangesTheStoredDimensions) {
  TensorLayout tensor{"t", 0, {3, 6}, std::nullopt, {}, {}};
  AddRows(tensor, 0, kShape, 4, 2, 0);
  AddZeros(tensor, 0, 2, 1);
  TransposeStored(tensor);
  EXPECT_EQ(tensor.shape, Shape({6, 3}));
  EXPECT_EQ(StoredBox(tensor.pieces[0], 2), MakeBox({0, 0}, {6, 2}));
  EXPECT_EQ(tensor.fills[0].stored, MakeBox({0, 2}, {6, 1}));
  EXPECT_TRUE(CheckLayout(kParams, LayoutOf({tensor})).ok());
}

// The last two of three are exchanged.
TEST(Builders, TransposeLeavesTheDimensionsBefore) {
  const std::vector<LogicalTensor> params = {{"p", {2, 3, 4}, 0, 0}};
  TensorLayout tensor = WholeTensor("t", 0, 0, {2, 3, 4});
  tensor.shape = {2, 3, 5};
  AddZeros(tensor, 2, 4, 1);
  TransposeStored(tensor);
  EXPECT_EQ(tensor.shape, Shape({2, 5, 3}));
  EXPECT_EQ(tensor.pieces[0].axes, (std::vector<uint8_t>{0, 2, 1}));
  EXPECT_EQ(tensor.fills[0].stored, MakeBox({0, 4, 0}, {2, 1, 3}));
  EXPECT_TRUE(CheckLayout(params, LayoutOf({tensor})).ok());
}

// --- the faults, each by name

TensorLayout Good() { return WholeOf("t", 0, kShape); }

void ExpectFault(const TensorLayout& tensor, const std::string& part) {
  Layout layout = LayoutOf({Good()});
  layout.tensors.push_back(tensor);
  const std::optional<Error> error =
      ExpectError(CheckLayout(kParams, layout), Errc::kInternal, part);
  if (error) {
    EXPECT_EQ(error->tensor(), tensor.name);
  }
}

TEST(CheckLayout, AcceptsPiecesAndFillsThatTileATensor) {
  TensorLayout tensor{"t", 0, {10, 6}, std::nullopt, {}, {}};
  AddRows(tensor, 0, kShape, 4, 4, 0);
  AddRows(tensor, 0, kShape, 0, 4, 4);
  AddZeros(tensor, 0, 8, 2);
  const Status status = CheckLayout(kParams, LayoutOf({tensor}));
  EXPECT_TRUE(status.ok()) << status.error().ToString();
}

TEST(CheckLayout, RejectsAFileThatIsNotThere) {
  TensorLayout tensor = Good();
  tensor.file = 9;
  Layout layout = LayoutOf({Good()});
  layout.tensors.push_back(tensor);
  ExpectError(CheckLayout(kParams, layout), Errc::kInternal, "no such file");
}

TEST(CheckLayout, RejectsAnUnknownParameter) {
  TensorLayout tensor = Good();
  tensor.pieces[0].param = 7;
  ExpectFault(tensor, "unknown parameter");
}

TEST(CheckLayout, RejectsTheWrongRank) {
  TensorLayout tensor = Good();
  tensor.pieces[0].param = 1;
  ExpectFault(tensor, "piece of bias has the wrong rank");
  tensor = Good();
  tensor.pieces[0].stored_lo = {0};
  ExpectFault(tensor, "wrong stored rank");
}

TEST(CheckLayout, RejectsAPieceOutsideOfItsParameter) {
  TensorLayout tensor = Good();
  tensor.pieces[0].logical.lo[0] = 1;
  ExpectFault(tensor, "piece [1:9, 0:6] is outside of w [8, 6]");
  tensor = Good();
  tensor.pieces[0].logical.lo[1] = -1;
  ExpectFault(tensor, "piece [0:8, -1:5] is outside of w [8, 6]");
}

TEST(CheckLayout, RejectsAPieceOutsideOfItsTensor) {
  TensorLayout tensor = Good();
  tensor.pieces[0].stored_lo = {0, 1};
  ExpectFault(tensor, "[0:8, 1:7] is outside of the stored shape [8, 6]");
}

TEST(CheckLayout, RejectsAxesThatAreNoPermutation) {
  TensorLayout tensor = Good();
  tensor.pieces[0].axes = {0, 0};
  ExpectFault(tensor, "axes");
  tensor.pieces[0].axes = {0, 2};
  ExpectFault(tensor, "axes");
}

TEST(CheckLayout, RejectsOverlap) {
  TensorLayout tensor{"t", 0, {8, 6}, std::nullopt, {}, {}};
  AddRows(tensor, 0, kShape, 0, 5, 0);
  AddRows(tensor, 0, kShape, 0, 3, 4);
  AddZeros(tensor, 0, 7, 1);
  ExpectFault(tensor, "[4:7, 0:6] and [0:5, 0:6] overlap");
}

TEST(CheckLayout, RejectsAPieceUnderAFill) {
  TensorLayout tensor = Good();
  AddZeros(tensor, 1, 5, 1);
  ExpectFault(tensor, "[0:8, 5:6] and [0:8, 0:6] overlap");
}

TEST(CheckLayout, RejectsAHole) {
  ExpectFault({"t", 0, {8, 6}, std::nullopt, RowsOf("t", 0, kShape, 0, 5).pieces, {}},
              "30 of 48 elements are covered");
}

TEST(CheckLayout, AcceptsScalarsAndEmptyTensors) {
  const std::vector<LogicalTensor> params = {{"scalar", {}, 0, 0}, {"empty", {0, 4}, 0, 0}};
  const Status status =
      CheckLayout(params, LayoutOf({WholeOf("s", 0, {}), WholeOf("e", 1, {0, 4})}));
  EXPECT_TRUE(status.ok()) << status.error().ToString();
}

// Rows of [a; 2 rows of fill; b transposed], with one piece of a vector's column in row 0.
TEST(CutRows, ClipsPiecesAndFillsAndFillsUpBehind) {
  TensorLayout tensor{"t", 3, {7, 4}, std::nullopt, {}, {}};
  AddRows(tensor, 0, {5, 4}, 1, 2, 0);  // rows 0 and 1: a[1:3]
  AddZeros(tensor, 0, 2, 2);            // rows 2 and 3
  tensor.fills[0].value = 9;
  tensor.pieces.push_back({1, {{0, 2}, {4, 3}}, {4, 0}, {1, 0}});  // rows 4 to 6: b[0:4, 2:5]^T
  struct Row {
    int64_t row, rows;
    std::string text;
  };
  for (const Row& want :
       {Row{0, 3, "0 [1:3, 0:4] at 0; fill 9 [2:3, 0:4]; "}, Row{1, 1, "0 [2:3, 0:4] at 0; "},
        Row{3, 3, "1 [0:4, 2:4] at 1; fill 9 [0:1, 0:4]; "},
        Row{5, 3, "1 [0:4, 3:5] at 0; fill 0 [2:3, 0:4]; "}, Row{7, 2, "fill 0 [0:2, 0:4]; "},
        Row{30, 1, "fill 0 [0:1, 0:4]; "}}) {
    const TensorLayout cut = CutRows(tensor, want.row, want.rows);
    EXPECT_EQ(cut.shape, (Shape{want.rows, 4}));
    EXPECT_EQ(cut.file, 3u);
    std::string text;
    for (const Piece& piece : cut.pieces)
      text += std::to_string(piece.param) + " " + BoxText(piece.logical) + " at " +
              std::to_string(piece.stored_lo[0]) + "; ";
    for (const Fill& fill : cut.fills)
      text += "fill " + std::to_string(fill.value) + " " + BoxText(fill.stored) + "; ";
    EXPECT_EQ(text, want.text) << "rows from " << want.row;
  }
}

// All rows of every cut together are the tensor: CheckLayout's condition for each.
TEST(CutRows, OfEverySizeAreWholeLayouts) {
  const std::vector<LogicalTensor> params = {{"a", {5, 4}, 0, 0}, {"v", {6}, 0, 0}};
  TensorLayout matrix{"m", 0, {5, 4}, std::nullopt, {}, {}};
  AddWhole(matrix, 0, {5, 4});
  TensorLayout vector{"n", 0, {6}, std::nullopt, {}, {}};
  AddWhole(vector, 1, {6});
  for (int64_t ranks = 1; ranks <= 8; ++ranks) {
    Layout layout;
    layout.files.push_back({"f", -1, -1});
    for (const TensorLayout* tensor : {&matrix, &vector}) {
      const int64_t rows = (tensor->shape[0] + ranks - 1) / ranks;
      for (int64_t rank = 0; rank < ranks; ++rank)
        layout.tensors.push_back(CutRows(*tensor, rank * rows, rows));
    }
    const Status whole = CheckLayout(params, layout);
    EXPECT_TRUE(whole.ok()) << whole.error().ToString();
    EXPECT_TRUE(PrimaryPlaces::Find(params, layout).ok()) << ranks << " ranks";
  }
}

// Boxes that tile a stored tensor, each cut out: together they are the tensor.
TEST(CutBox, OfTilesAreWholeLayouts) {
  const std::vector<LogicalTensor> params = {{"a", {4, 3, 2}, 0, 0}};
  TensorLayout tensor{"t", 0, {3, 5, 2}, std::nullopt, {}, {}};
  tensor.pieces.push_back({0, WholeBox({4, 3, 2}), {0, 0, 0}, {1, 0, 2}});  // transposed
  AddZeros(tensor, 1, 4, 1);
  Layout layout;
  layout.files.push_back({"f", -1, -1});
  for (int64_t row = 0; row < 3; ++row)
    for (const auto& [column, columns] : {std::pair<int64_t, int64_t>{0, 2}, {2, 3}})
      layout.tensors.push_back(CutBox(tensor, {{row, column, 0}, {1, columns, 2}}));
  const Status whole = CheckLayout(params, layout);
  EXPECT_TRUE(whole.ok()) << whole.error().ToString();
  EXPECT_TRUE(PrimaryPlaces::Find(params, layout).ok());
  const Piece& last = layout.tensors.back().pieces.front();
  EXPECT_EQ(last.logical, (Box{{2, 2, 0}, {2, 1, 2}}));
  EXPECT_EQ(last.stored_lo, (Shape{0, 0, 0}));
}

TEST(FindOverlap, NamesTheFirstPairOrNone) {
  std::vector<Box> columns;
  for (int64_t i = 0; i < 2000; ++i) columns.push_back({{0, i}, {1000, 1}});
  EXPECT_EQ(*FindOverlap(columns), std::nullopt);
  columns.push_back({{999, 7}, {1, 1}});
  EXPECT_EQ(*FindOverlap(columns), (std::pair<size_t, size_t>(2000, 7)));
  EXPECT_EQ(*FindOverlap({}), std::nullopt);
  EXPECT_EQ(*FindOverlap({{{}, {}}, {{}, {}}}), (std::pair<size_t, size_t>(1, 0)));
}

// 32,000 rows and 32,000 columns: each row meets each column, a thousand million pairs. Found with
// the first row. The limit is in processor time, a hundred times the usual.
TEST(FindOverlap, IsThroughWithTheFirstOfMany) {
  constexpr int64_t kSlabs = 32'000;
  std::vector<Box> boxes;
  for (int64_t i = 0; i < kSlabs; ++i) boxes.push_back({{i, 0}, {1, kSlabs}});
  for (int64_t i = 0; i < kSlabs; ++i) boxes.push_back({{0, i}, {kSlabs, 1}});
  const std::clock_t before = std::clock();
  EXPECT_EQ(*FindOverlap(boxes), (std::pair<size_t, size_t>(kSlabs, 0)));
  EXPECT_LT(std::clock() - before, 10 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace nxdkit
