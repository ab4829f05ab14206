// Reads boxes of stored tensors into memory with few, large, bounded reads.
#pragma once

#include <span>
#include <vector>

#include "lib/plan/plan.h"
#include "lib/plan/slice.h"
#include "lib/plan/strided_copy.h"
#include "lib/system/page_buffer.h"
#include "lib/tensor/output.h"

namespace nxdkit {

// One box on its way from a stored tensor to memory.
struct Move {
  const StoredTensor* source = nullptr;
  int64_t start = 0;  // first element, in elements from the tensor's offset
  StridedCopy copy;
  std::byte* output = nullptr;
};

// A move of `op`, clipped to `slice`: a part of the output tensor that starts at `output` in
// memory, where neighbours of the slice are `output_strides` elements apart. nullopt if they do not
// meet.
std::optional<Move> ClipToSlice(const CopyOp& op, const StoredTensor& source, const Slice& slice,
                                const Shape& output_strides, Dtype output_dtype, std::byte* output);

// Whether an op makes an element of the slice.
bool Meets(const CopyOp& op, const Slice& slice);

// kUnsupported for tensors that no move can make: elements smaller than a byte, and element types
// that cannot be converted.
Status CheckElements(const TensorPlan& plan, const BoundLayout& source, const OutputTensor& output);

// Adds the moves that make `slice` of an output tensor in memory at `to`, as ClipToSlice places
// them; constants are filled in at once.
void AddSliceMoves(const TensorPlan& plan, const BoundLayout& source, Dtype output_dtype,
                   const Slice& slice, const Shape& output_strides, std::byte* to,
                   std::vector<Move>& moves);

// Adds the moves that make elements [first, ...) of an output tensor, given as its boxes in order
// (RangeBoxes), in packed memory at `to`; constants are filled in at once.
void AddRangeMoves(const TensorPlan& plan, const BoundLayout& source, const OutputTensor& output,
                   int64_t first, std::span<const Box> boxes, std::byte* to,
                   std::vector<Move>& moves);

// Not thread-safe: one per thread, it owns the staging buffer.
class Gatherer {
 public:
  explicit Gatherer(uint64_t staging_bytes)
      : staging_bytes_(staging_bytes), memory_(staging_bytes + kPageBytes) {}

  // Executes all moves. Moves whose source ranges overlap share one read; a dense move is read
  // straight into its output, unless the copy would be slow; a sparse one is split so that few
  // unused bytes are read.
  Status Run(std::vector<Move> moves);
  // Reads whole elements of an output tensor from byte `offset` on, packed.
  Status Read(const TensorPlan& plan, const BoundLayout& source, const OutputTensor& output,
              uint64_t offset, std::span<std::byte> to);

 private:
  Status RunOne(const Move& move);
  Status RunParts(const Move& move);
  static Status RunRows(const Move& first, int64_t count, size_t dimension);
  bool IsOneRead(const Move& move) const;
  // `bytes` bytes of the tensor's storage, at most staging_bytes_; valid until the next call.
  Result<const std::byte*> Stage(const StoredTensor& tensor, uint64_t offset, uint64_t bytes);

  uint64_t staging_bytes_;
  PageBuffer memory_;
};

// The part of a fill in a slice, placed as ClipToSlice does.
void FillSlice(const Fill& fill, const Slice& slice, const Shape& output_strides, Dtype dtype,
               std::byte* output);

}  // namespace nxdkit
