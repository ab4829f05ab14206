// Runs of flattened tensors as boxes: every run of small shapes, element by element.
#include "formats/fsdp/flat.h"

#include <gtest/gtest.h>

namespace nxdkit::fsdp {
namespace {

// The flat numbers of a box's elements, in its order.
std::vector<int64_t> NumbersOf(const Box& box, const Shape& shape) {
  const Shape strides = RowMajorStrides(shape);
  std::vector<int64_t> numbers = {0};
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<int64_t> next;
    for (const int64_t number : numbers)
      for (int64_t i = 0; i < box.extent[d]; ++i)
        next.push_back(number + (box.lo[d] + i) * strides[d]);
    numbers = std::move(next);
  }
  return numbers;
}

TEST(Flat, EveryRunOfASmallTensorIsItsElementsInOrder) {
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{3, 4}, Shape{1, 5}, Shape{5, 1},
                             Shape{2, 3, 4}, Shape{3, 1, 2}, Shape{2, 2, 2, 3}}) {
    const int64_t elements = *ElementCount(shape);
    for (int64_t first = 0; first < elements; ++first)
      for (int64_t count = 0; first + count <= elements; ++count) {
        SCOPED_TRACE(ShapeText(shape) + " " + std::to_string(first) + " " + std::to_string(count));
        const std::vector<FlatBox> boxes = BoxesOf(shape, first, count);
        EXPECT_LE(boxes.size(), 2 * shape.size() + 1);
        int64_t at = 0;
        for (const FlatBox& box : boxes) {
          EXPECT_EQ(box.at, at);
          for (const int64_t number : NumbersOf(box.box, shape)) EXPECT_EQ(number, first + at++);
        }
        EXPECT_EQ(at, count);
      }
  }
}

}  // namespace
}  // namespace nxdkit::fsdp
