// Primary places, plans and self plans: the copies, and the named faults.
#include "lib/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"
#include "tests/lib/plan/plan_fixture.h"

namespace nxdkit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing_util::ColumnsOf;
using testing_util::ExpectError;
using testing_util::LayoutOf;
using testing_util::NaiveBind;
using testing_util::Packed;
using testing_util::PackedNumbers;
using testing_util::RowsOf;
using testing_util::WholeOf;

const Shape kPlanned = {8, 6};
const std::vector<LogicalTensor> kOneParam = {{"w", kPlanned, 0, 0}};

std::vector<std::string> PlacesText(const PrimaryPlaces& places, uint32_t param) {
  std::vector<std::string> out;
  for (const PrimaryPlaces::Place& place : places.of(param))
    out.push_back(std::to_string(place.tensor) + ":" + BoxText(place.logical));
  return out;
}

TEST(PrimaryPlaces, AreTheFirstOfTheReplicas) {
  const Layout layout = LayoutOf({WholeOf("a", 0, kPlanned), WholeOf("b", 0, kPlanned)});
  const auto places = PrimaryPlaces::Find(kOneParam, layout);
  ASSERT_TRUE(places.ok()) << places.error().ToString();
  EXPECT_THAT(PlacesText(*places, 0), ElementsAre("0:[0:8, 0:6]"));
}

TEST(PrimaryPlaces, LeaveOutWhatAnEarlierPieceHolds) {
  const Layout layout = LayoutOf({RowsOf("a", 0, kPlanned, 2, 4), WholeOf("b", 0, kPlanned)});
  const auto places = PrimaryPlaces::Find(kOneParam, layout);
  ASSERT_TRUE(places.ok()) << places.error().ToString();
  EXPECT_THAT(PlacesText(*places, 0), ElementsAre("0:[2:6, 0:6]", "1:[0:2, 0:6]", "1:[6:8, 0:6]"));
}

TEST(PrimaryPlaces, NameTheHole) {
  const Layout layout = LayoutOf({RowsOf("a", 0, kPlanned, 0, 3), RowsOf("b", 0, kPlanned, 5, 3)});
  const std::optional<Error> error =
      ExpectError(PrimaryPlaces::Find(kOneParam, layout), Errc::kCorrupt,
                  "elements [3:5, 0:6] of [8, 6] are stored nowhere");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->tensor(), "w");
}

// As in a hostile file; comparing each with each would be 20 thousand million pairs.
constexpr int64_t kManyRows = 200'000;

TensorLayout ManyPieces(const std::string& name) {
  TensorLayout tensor{name, 0, {kManyRows, 1}, std::nullopt, {}, {}};
  for (int64_t row = 0; row < kManyRows; ++row)
    tensor.pieces.push_back({0, {{row, 0}, {1, 1}}, {kManyRows - 1 - row, 0}, {0, 1}});
  return tensor;
}

TEST(PrimaryPlaces, NameTheHoleInAHundredThousandPieces) {
  const std::vector<LogicalTensor> params = {{"w", {kManyRows, 1}, 0, 0}};
  Layout layout = LayoutOf({ManyPieces("a")});
  std::vector<Piece>& pieces = layout.tensors[0].pieces;
  pieces.erase(pieces.begin() + 123'456, pieces.begin() + 123'458);
  ExpectError(PrimaryPlaces::Find(params, layout), Errc::kCorrupt,
              "elements [123456:123458, 0:1] of [200000, 1] are stored nowhere");
}

TEST(BuildPlan, OfAHundredThousandPiecesLooksAtNeighboursOnly) {
  const std::vector<LogicalTensor> params = {{"w", {kManyRows, 1}, 0, 0}};
  const BoundLayout source = NaiveBind(params, LayoutOf({ManyPieces("a")}));
  const Layout halves = LayoutOf({RowsOf("b", 0, {kManyRows, 1}, 0, kManyRows / 2),
                                  RowsOf("c", 0, {kManyRows, 1}, kManyRows / 2, kManyRows / 2)});
  const auto plan = BuildPlan(params, source, halves);
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  ASSERT_THAT(plan->tensors[1].copies, SizeIs(kManyRows / 2));
  const CopyOp& first = plan->tensors[1].copies.front();
  EXPECT_EQ(first.start, kManyRows / 2 - 1);
  EXPECT_EQ(BoxText(first.box), "[0:1, 0:1]");
}

// Two thousand rows and as many columns: each intersects each, and a plan would have four million
// copies.
constexpr int64_t kManySlabs = 4'000;

Layout CrossedSlabs(bool covered) {
  const Shape shape = {kManySlabs, kManySlabs};
  std::vector<TensorLayout> tensors;
  if (covered)
    for (int64_t i = 0; i < kManySlabs; i += 2) tensors.push_back(RowsOf("pair", 0, shape, i, 2));
  for (int64_t i = 0; i < kManySlabs; i += 2)
    tensors.push_back(ColumnsOf("column", 0, shape, i, 1));
  for (int64_t i = 0; i < kManySlabs; i += 2) tensors.push_back(RowsOf("row", 0, shape, i, 1));
  return LayoutOf(tensors);
}

TEST(PrimaryPlaces, AreNotLookedForInEverythingThatOverlapsEverything) {
  const std::vector<LogicalTensor> params = {{"w", {kManySlabs, kManySlabs}, 0, 0}};
  const auto error =
      ExpectError(PrimaryPlaces::Find(params, CrossedSlabs(false)), Errc::kUnsupported,
                  "its 4000 pieces overlap each other in too many ways");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->tensor(), "w");
}

// Here the first two thousand cover everything, and the others are copies: each of two thousand
// places.
TEST(BuildSelfPlan, DoesNotCompareEverythingWithEverything) {
  const std::vector<LogicalTensor> params = {{"w", {kManySlabs, kManySlabs}, 0, 0}};
  const Layout layout = CrossedSlabs(true);
  ASSERT_TRUE(PrimaryPlaces::Find(params, layout).ok());
  BoundLayout bound{layout, {}};
  for (const TensorLayout& tensor : layout.tensors)
    bound.stored.push_back(Packed(tensor.name, Dtype::kU8, tensor.shape, nullptr));
  const auto error = ExpectError(BuildSelfPlan(params, bound), Errc::kUnsupported,
                                 "its 2000 pieces overlap each other in too many ways");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->tensor(), "w");
}

TEST(PrimaryPlaces, NameAParameterThatIsStoredNowhere) {
  const std::vector<LogicalTensor> params = {{"w", kPlanned, 0, 0}, {"lost", {2}, 0, 0}};
  const Layout layout = LayoutOf({WholeOf("a", 0, kPlanned)});
  const auto error =
      ExpectError(PrimaryPlaces::Find(params, layout), Errc::kCorrupt, "stored nowhere");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->tensor(), "lost");
  const auto lenient = PrimaryPlaces::Find(params, layout, true);
  ASSERT_TRUE(lenient.ok()) << lenient.error().ToString();
  EXPECT_THAT(lenient->of(1), IsEmpty());
}

TEST(PrimaryPlaces, MissAPartEvenWhenWholeParametersMayBeMissing) {
  const Layout layout = LayoutOf({RowsOf("a", 0, kPlanned, 0, 3)});
  ExpectError(PrimaryPlaces::Find(kOneParam, layout, true), Errc::kCorrupt, "[3:8, 0:6]");
}

TEST(PrimaryPlaces, TakeScalarsAndEmptyParameters) {
  const std::vector<LogicalTensor> params = {{"scalar", {}, 0, 0}, {"empty", {0, 4}, 0, 0}};
  const Layout layout = LayoutOf({WholeOf("s", 0, {}), WholeOf("e", 1, {0, 4})});
  const auto places = PrimaryPlaces::Find(params, layout);
  ASSERT_TRUE(places.ok()) << places.error().ToString();
  EXPECT_THAT(places->of(0), SizeIs(1));
}

// --- plans

std::string OpText(const CopyOp& op) {
  std::string text = BoxText(op.box) + " from tensor " + std::to_string(op.source) + " at " +
                     std::to_string(op.start) + " strides";
  for (int64_t stride : op.strides) text += " " + std::to_string(stride);
  return text;
}

std::vector<std::string> OpsText(const TensorPlan& plan) {
  std::vector<std::string> out;
  for (const CopyOp& op : plan.copies) out.push_back(OpText(op));
  return out;
}

// Two column halves of a parameter that the source stores as two row halves: four direct copies.
TEST(BuildPlan, CancelsTheLogicalTensor) {
  const BoundLayout source = NaiveBind(
      kOneParam, LayoutOf({RowsOf("top", 0, kPlanned, 0, 4), RowsOf("low", 0, kPlanned, 4, 4)}));
  const Layout output =
      LayoutOf({ColumnsOf("left", 0, kPlanned, 0, 2), ColumnsOf("right", 0, kPlanned, 2, 4)});
  const auto plan = BuildPlan(kOneParam, source, output);
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  ASSERT_THAT(plan->tensors, SizeIs(2));
  EXPECT_THAT(OpsText(plan->tensors[0]), ElementsAre("[0:4, 0:2] from tensor 0 at 0 strides 6 1",
                                                     "[4:8, 0:2] from tensor 1 at 0 strides 6 1"));
  EXPECT_THAT(OpsText(plan->tensors[1]), ElementsAre("[0:4, 0:4] from tensor 0 at 2 strides 6 1",
                                                     "[4:8, 0:4] from tensor 1 at 2 strides 6 1"));
}

TEST(BuildPlan, ReadsATransposedSourceWithItsStrides) {
  TensorLayout stored = RowsOf("t", 0, kPlanned, 0, 8);
  TransposeStored(stored);  // [6, 8]
  const BoundLayout source = NaiveBind(kOneParam, LayoutOf({stored}));
  const auto plan = BuildPlan(kOneParam, source, LayoutOf({RowsOf("rows", 0, kPlanned, 3, 2)}));
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  EXPECT_THAT(OpsText(plan->tensors[0]), ElementsAre("[0:2, 0:6] from tensor 0 at 3 strides 1 8"));
}

TEST(BuildPlan, TransposesIntoTheOutput) {
  const BoundLayout source = NaiveBind(kOneParam, LayoutOf({WholeOf("w", 0, kPlanned)}));
  TensorLayout out = RowsOf("t", 0, kPlanned, 4, 2);
  TransposeStored(out);  // [6, 2]
  const auto plan = BuildPlan(kOneParam, source, LayoutOf({out}));
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  EXPECT_THAT(OpsText(plan->tensors[0]), ElementsAre("[0:6, 0:2] from tensor 0 at 24 strides 1 6"));
}

// Experts: [4, 3, 5] over two ranks along dimension 0, stored with the last two exchanged.
TEST(BuildPlan, HandlesThreeDimensions) {
  const Shape shape = {4, 3, 5};
  const std::vector<LogicalTensor> params = {{"experts", shape, 0, 0}};
  const BoundLayout source = NaiveBind(params, LayoutOf({WholeOf("experts", 0, shape)}));
  TensorLayout rank1{"half", 0, {2, 5, 3}, std::nullopt, {}, {}};
  rank1.pieces.push_back({0, {{2, 0, 0}, {2, 3, 5}}, {0, 0, 0}, {0, 2, 1}});
  const auto plan = BuildPlan(params, source, LayoutOf({rank1}));
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  EXPECT_THAT(OpsText(plan->tensors[0]),
              ElementsAre("[0:2, 0:5, 0:3] from tensor 0 at 30 strides 15 1 5"));
}

TEST(BuildPlan, FollowsTheStridesOfAView) {
  BoundLayout source = NaiveBind(kOneParam, LayoutOf({WholeOf("w", 0, kPlanned)}));
  source.stored[0].strides = {12, 2};
  const auto plan = BuildPlan(kOneParam, source, LayoutOf({RowsOf("r", 0, kPlanned, 1, 1)}));
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  EXPECT_THAT(OpsText(plan->tensors[0]),
              ElementsAre("[0:1, 0:6] from tensor 0 at 12 strides 12 2"));
}

TEST(BuildPlan, KeepsTheFills) {
  const BoundLayout source = NaiveBind(kOneParam, LayoutOf({WholeOf("w", 0, kPlanned)}));
  TensorLayout padded{"padded", 0, {10, 6}, std::nullopt, {}, {}};
  AddRows(padded, 0, kPlanned, 0, 8, 0);
  AddZeros(padded, 0, 8, 2);
  const auto plan = BuildPlan(kOneParam, source, LayoutOf({padded}));
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  ASSERT_THAT(plan->tensors[0].fills, SizeIs(1));
  EXPECT_EQ(BoxText(plan->tensors[0].fills[0].stored), "[8:10, 0:6]");
}

TEST(BuildPlan, NamesAShapeThatIsNotTheLayouts) {
  BoundLayout source = NaiveBind(kOneParam, LayoutOf({WholeOf("w", 0, kPlanned)}));
  source.stored[0] = PackedNumbers("w", {8, 7});
  const std::optional<Error> error =
      ExpectError(BuildPlan(kOneParam, source, source.layout), Errc::kCorrupt,
                  "shape [8, 7] found, [8, 6] expected");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->file(), "memory");
  EXPECT_EQ(error->tensor(), "w");
}

TEST(BuildPlan, NamesADtypeThatIsNotTheLayouts) {
  BoundLayout source = NaiveBind(kOneParam, LayoutOf({WholeOf("w", 0, kPlanned)}));
  source.layout.tensors[0].dtype = Dtype::kI32;
  const std::optional<Error> error = ExpectError(BuildPlan(kOneParam, source, source.layout),
                                                 Errc::kCorrupt, "dtype U32 found, I32 expected");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->tensor(), "w");
}

TEST(BuildPlan, RefusesABrokenLayoutOfEitherSide) {
  const BoundLayout good = NaiveBind(kOneParam, LayoutOf({WholeOf("w", 0, kPlanned)}));
  Layout broken = good.layout;
  broken.tensors[0].pieces.clear();
  ExpectError(BuildPlan(kOneParam, good, broken), Errc::kInternal, "0 of 48 elements");
  BoundLayout broken_source = good;
  broken_source.layout = broken;
  ExpectError(BuildPlan(kOneParam, broken_source, good.layout), Errc::kInternal,
              "0 of 48 elements");
}

// --- self plans

TEST(BuildSelfPlan, PredictsReplicasFromTheirPrimaryAndLeavesItAlone) {
  TensorLayout padded{"padded", 0, {9, 6}, std::nullopt, {}, {}};
  AddRows(padded, 0, kPlanned, 0, 8, 0);
  AddZeros(padded, 0, 8, 1);
  const BoundLayout bound =
      NaiveBind(kOneParam, LayoutOf({RowsOf("half", 0, kPlanned, 0, 4), padded}));
  const auto plan = BuildSelfPlan(kOneParam, bound);
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  EXPECT_THAT(plan->tensors[0].copies, IsEmpty());
  // Rows 4 to 8 have their primary place here, rows 0 to 4 are replicas of "half".
  EXPECT_THAT(OpsText(plan->tensors[1]), ElementsAre("[0:4, 0:6] from tensor 0 at 0 strides 6 1"));
  EXPECT_THAT(plan->tensors[1].fills, SizeIs(1));
}

// A key head twice in the same tensor: the second copy is predicted from the first.
TEST(BuildSelfPlan, ComparesReplicasInsideOneTensor) {
  TensorLayout twice{"twice", 0, {16, 6}, std::nullopt, {}, {}};
  AddRows(twice, 0, kPlanned, 0, 8, 0);
  AddRows(twice, 0, kPlanned, 0, 8, 8);
  const auto plan = BuildSelfPlan(kOneParam, NaiveBind(kOneParam, LayoutOf({twice})));
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  EXPECT_THAT(OpsText(plan->tensors[0]), ElementsAre("[8:16, 0:6] from tensor 0 at 0 strides 6 1"));
}

TEST(BuildSelfPlan, AllowsMissingParameters) {
  const std::vector<LogicalTensor> params = {{"w", kPlanned, 0, 0}, {"lost", {2}, 0, 0}};
  const auto plan = BuildSelfPlan(params, NaiveBind(params, LayoutOf({WholeOf("w", 0, kPlanned)})));
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  EXPECT_THAT(plan->tensors[0].copies, IsEmpty());
}

}  // namespace
}  // namespace nxdkit
