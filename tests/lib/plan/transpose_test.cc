// CopyTransposed compared with a loop over single elements: every element size, whole and partial
// tiles, areas that are not aligned; bytes outside the area stay.
#include "lib/plan/transpose.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace nxdkit {
namespace {

struct TransposeCase {
  int64_t bytes;
  int64_t rows;
  int64_t columns;
};

class Transpose : public ::testing::TestWithParam<TransposeCase> {};
TEST_P(Transpose, PutsEveryElementWhereALoopPutsIt) {
  const auto [bytes, rows, columns] = GetParam();
  const int64_t source_stride = rows + 3;
  const int64_t output_stride = columns + 5;
  std::vector<std::byte> source(1 + columns * source_stride * bytes);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 37 + i / 251);
  std::vector<std::byte> expected(1 + rows * output_stride * bytes, std::byte{0xA5});
  std::vector<std::byte> output = expected;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      std::memcpy(expected.data() + 1 + (r * output_stride + c) * bytes,
                  source.data() + 1 + (r + c * source_stride) * bytes, bytes);
  CopyTransposed(bytes, rows, columns, source_stride, output_stride, source.data() + 1,
                 output.data() + 1);
  EXPECT_TRUE(output == expected);
}

std::vector<TransposeCase> Cases() {
  std::vector<TransposeCase> cases;
  for (const int64_t bytes : {1, 2, 4, 8, 16}) {
    const int64_t side = 64 / bytes;  // of a tile
    for (const auto& [rows, columns] : {std::pair{side, side},
                                        {3 * side, 2 * side},
                                        {side + 1, side - 1},
                                        {2 * side - 1, 1},
                                        {1, 2 * side + 1},
                                        {int64_t{1}, int64_t{1}}})
      cases.push_back({bytes, rows, columns});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(OfAllSizes, Transpose, ::testing::ValuesIn(Cases()), [](const auto& row) {
  return "Bytes" + std::to_string(row.param.bytes) + "Rows" + std::to_string(row.param.rows) +
         "Columns" + std::to_string(row.param.columns);
});

}  // namespace
}  // namespace nxdkit
