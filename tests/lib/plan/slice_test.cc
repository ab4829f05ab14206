// Slices by themselves: the number of their indices, their parts, and the refused ones.
#include "lib/plan/slice.h"

#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using testing_util::ExpectError;

TEST(Slice, CountsTheIndicesBeforeItsEnd) {
  EXPECT_EQ((Slice{{0, 1, 3, 2}, {10, 10, 3, 9}, {1, 3, 1, INT64_MAX}}).extent(),
            Shape({10, 3, 0, 1}));
  EXPECT_EQ(WholeSlice({3, 0}).extent(), Shape({3, 0}));
  EXPECT_EQ(WholeSlice({}).extent(), Shape());
}

TEST(Slice, IsAsLongAsItsBox) {
  EXPECT_EQ(SliceOf({{2, 3}, {4, 5}}), (Slice{{2, 3}, {6, 8}, {1, 1}}));
}

TEST(Slice, HasParts) {
  const Slice slice{{1, 0}, {20, 8}, {3, 1}};  // rows 1, 4, 7, 10, 13, 16, 19
  const Slice part = PartOf(slice, {{2, 4}, {3, 2}});
  EXPECT_EQ(part.begin, Shape({7, 4}));
  EXPECT_EQ(part.extent(), Shape({3, 2}));
  EXPECT_EQ(part.step, slice.step);
  EXPECT_EQ(PartOf(slice, {{0, 0}, {0, 8}}).extent(), Shape({0, 8}));
  EXPECT_EQ(PartOf({{2}, {9}, {INT64_MAX}}, {{0}, {1}}).extent(), Shape({1}));
}

struct BadSlice {
  Slice slice;
  const char* message;
};

TEST(CheckSlice, NamesTheDimensionAndWhatIsAllowed) {
  const BadSlice bad[] = {
      {{{0}, {3, 4}, {1, 1}}, "1 numbers as begin, the tensor has 2 dimensions"},
      {{{0, 0}, {3, 4, 5}, {1, 1}}, "3 numbers as end, the tensor has 2 dimensions"},
      {{{0, 0}, {3, 4}, {}}, "0 numbers as step, the tensor has 2 dimensions"},
      {{{0, -1}, {3, 4}, {1, 1}}, "dimension 1 of the slice: begin -1, expected 0 to 4"},
      {{{0, 0}, {4, 4}, {1, 1}}, "dimension 0 of the slice: end 4, expected 0 to 3"},
      {{{0, 0}, {-1, 4}, {1, 1}}, "dimension 0 of the slice: end -1, expected 0 to 3"},
      {{{2, 0}, {1, 4}, {1, 1}}, "dimension 0 of the slice: begin 2, expected 0 to 1"},
      {{{0, 0}, {3, 4}, {1, 0}}, "dimension 1 of the slice: step 0, expected 1 or more"},
  };
  for (const auto& [slice, message] : bad)
    ExpectError(CheckSlice(slice, {3, 4}), Errc::kUsage, message);
  EXPECT_TRUE(CheckSlice({{3, 0}, {3, 4}, {1, 9}}, {3, 4}).ok());
  EXPECT_TRUE(CheckSlice(WholeSlice({}), {}).ok());
}

}  // namespace
}  // namespace nxdkit
