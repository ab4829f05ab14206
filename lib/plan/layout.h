// A layout says where the elements of every logical parameter are stored. Two layouts over the same
// parameters make a slice plan (lib/plan/plan.h).
//
//   logical parameter  a tensor as Hugging Face names it: q_proj.weight [heads * head_dim, hidden]
//   piece              a box of it, stored at a box of a stored tensor, possibly transposed
//   fill               a box of a stored tensor that holds a constant: zero padding, a rank tensor
//
// A logical element may be stored several times (replicas). Every element of a stored tensor
// belongs to exactly one piece or fill.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/tensor/dtype.h"

namespace nxdkit {

// Half-open box: lo[d] <= i[d] < lo[d] + extent[d].
struct Box {
  Shape lo;
  Shape extent;

  int64_t Volume() const;  // 1 for rank 0
  bool operator==(const Box&) const = default;
};
Box WholeBox(const Shape& shape);
bool Meet(const Box& a, const Box& b);                     // neither ends before the other begins
std::optional<Box> Intersect(const Box& a, const Box& b);  // nullopt when empty
// a minus b as disjoint boxes, at most 2 * rank of them.
std::vector<Box> Subtract(const Box& a, const Box& b);
// The row-major range [first, end) of a shape's elements as boxes in order: at most two per
// dimension.
std::vector<Box> RangeBoxes(const Shape& shape, int64_t first, int64_t end);
// Elements [first, end) of a tensor, row-major.
struct ElementRange {
  int64_t first = 0;
  int64_t end = 0;
};
// A whole tensor in ranges that are boxes, along the outermost dimension of which one index fits in
// `bytes`.
std::vector<ElementRange> ChunkRanges(const Shape& shape, int64_t element_bytes, uint64_t bytes);
std::string BoxText(const Box& box);  // "[0:128, 0:4096]"
// Two boxes that meet, the later one first: the first box that any other meets, and the first of
// those; nullopt if all are disjoint. All have the same rank. kUnsupported if the boxes are placed
// so that finding out would take far more steps than there are boxes.
Result<std::optional<std::pair<size_t, size_t>>> FindOverlap(const std::vector<Box>& boxes);

struct LogicalTensor {
  std::string name;
  Shape shape;
  // Rows of one attention head, 0 if the parameter has no heads, and the dimension they run along:
  // only for messages ("head 3").
  int64_t head_rows = 0;
  int head_dim = 0;
};

struct Piece {
  uint32_t param = 0;  // index into the list of logical parameters
  Box logical;
  Shape stored_lo;            // rank of the stored tensor
  std::vector<uint8_t> axes;  // axes[d]: stored dimension that logical dimension d runs along

  bool operator==(const Piece&) const = default;
};

struct Fill {
  Box stored;
  int64_t value = 0;
};

struct TensorLayout {
  std::string name;
  uint32_t file = 0;  // index into Layout::files
  Shape shape;
  std::optional<Dtype> dtype;  // fixed (rank tensors are I32); nullopt: the parameter's
  std::vector<Piece> pieces;
  std::vector<Fill> fills;
};

struct LayoutFile {
  std::string path;      // relative to the artifact, or absolute for a source
  int64_t tp_rank = -1;  // -1: the file belongs to no rank
  int64_t pp_rank = -1;
  int64_t ep_rank = -1;
  int64_t writer = -1;  // the rank of a training run that writes it, where ranks are all alike
};

struct Layout {
  std::vector<LayoutFile> files;
  std::vector<TensorLayout> tensors;
};

// Adds the piece that puts rows [row, row + rows) of a rank 1 or 2 parameter, full width, at row
// `at` of the stored tensor.
void AddRows(TensorLayout& tensor, uint32_t param, const Shape& shape, int64_t row, int64_t rows,
             int64_t at);
// The same for columns of a rank 2 parameter.
void AddColumns(TensorLayout& tensor, uint32_t param, const Shape& shape, int64_t column,
                int64_t columns, int64_t at);
// The whole parameter, in a tensor of the same shape.
void AddWhole(TensorLayout& tensor, uint32_t param, const Shape& shape);
TensorLayout WholeTensor(std::string name, uint32_t file, uint32_t param, const Shape& shape);
// Zero padding for rows (dim 0) or columns (dim 1) [at, at + count) of the stored tensor; nothing
// when count is 0. The stored shape must be set.
void AddZeros(TensorLayout& tensor, int dim, int64_t at, int64_t count);
// Swaps the last two dimensions; the rank is at least 2.
void TransposeStored(TensorLayout& tensor);
// Rows [row, row + rows) of a stored tensor as a tensor: pieces and fills are clipped in stored
// space; rows past the tensor's end are zero padding. The rank is at least 1.
TensorLayout CutRows(const TensorLayout& tensor, int64_t row, int64_t rows);
// A box of a stored tensor as a tensor: pieces and fills are clipped in stored space; the part of
// the box outside the tensor stays empty.
TensorLayout CutBox(const TensorLayout& tensor, const Box& box);

// The parameters that a tensor holds parts of, each once, in the order of its pieces.
std::vector<uint32_t> ParamsOf(const TensorLayout& tensor);

Box StoredBox(const Piece& piece, size_t stored_rank);

// Checks the layout by itself: every piece is inside its parameter and its tensor, and the pieces
// and fills of each tensor are disjoint and cover it. kInternal otherwise: layouts are made by us.
Status CheckLayout(const std::vector<LogicalTensor>& params, const Layout& layout);

}  // namespace nxdkit
