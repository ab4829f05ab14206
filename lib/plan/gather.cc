#include "lib/plan/gather.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/base/errors.h"

namespace nxdkit {
namespace {

// A sparse read may fetch this many times the bytes that it needs; beyond, it is split.
constexpr uint64_t kMaxReadAmplification = 4;
// A read below this size costs as much as a system call: never split it.
constexpr uint64_t kSmallRead = 8 << 10;
// Reading this many unused bytes between two runs takes about as long as a second system call.
constexpr uint64_t kGapBytes = 4 << 10;

struct ByteRange {
  uint64_t begin;  // bytes in the storage
  uint64_t end;
  uint64_t size() const { return end - begin; }
};

int64_t Count(const Shape& extent) { return Box{extent, extent}.Volume(); }

ByteRange SourceRange(const Move& move) {
  int64_t last = move.start;
  for (size_t d = 0; d < move.copy.extent.size(); ++d)
    last += (move.copy.extent[d] - 1) * move.copy.source_strides[d];
  const int64_t bytes = ElementBytes(move.source->dtype);
  return {move.source->offset + move.start * bytes, move.source->offset + (last + 1) * bytes};
}

uint64_t Payload(const Move& move) {
  return Count(move.copy.extent) * ElementBytes(move.source->dtype);
}

// The number of contiguous runs in the source.
uint64_t Runs(const Move& move) {
  const Shape& extent = move.copy.extent;
  const bool together = !extent.empty() && move.copy.source_strides.back() == 1;
  return static_cast<uint64_t>(Count(extent) /
                               (together ? std::max<int64_t>(1, extent.back()) : 1));
}

bool WorthOneRead(uint64_t runs, uint64_t payload, uint64_t span) {
  return span <= kSmallRead || span <= payload * kMaxReadAmplification ||
         span - payload <= runs * kGapBytes;
}

// The dimension with the widest source stride, among those with more than one element.
size_t WidestOf(const Move& move) {
  size_t widest = move.copy.extent.size();
  for (size_t d = 0; d < move.copy.extent.size(); ++d)
    if (move.copy.extent[d] > 1 && (widest == move.copy.extent.size() ||
                                    move.copy.source_strides[d] > move.copy.source_strides[widest]))
      widest = d;
  NXDKIT_CHECK(widest < move.copy.extent.size());
  return widest;
}

// The indices of a slice's dimension within [lo, lo + extent).
struct Indices {
  int64_t first;
  int64_t count;  // less than 1 if there are none
};

Indices Within(const Slice& slice, size_t d, int64_t lo, int64_t extent) {
  const int64_t begin = std::max<int64_t>(lo - slice.begin[d], 0);
  const int64_t end = std::min(lo + extent, slice.end[d]) - slice.begin[d];
  const int64_t step = slice.step[d];
  if (step == 1 || end <= begin) return {begin, end - begin};
  const int64_t first = begin == 0 ? 0 : (begin - 1) / step + 1;
  return {first, (end - 1) / step + 1 - first};
}

// The part of a box that is in a slice, in the coordinates of both.
struct SlicePart {
  Shape in_box;  // of its first element
  Shape extent;
  int64_t output = 0;  // element at which the part begins in memory
};

bool MeetsSlice(const Box& box, const Slice& slice) {
  for (size_t d = 0; d < box.lo.size(); ++d)
    if (Within(slice, d, box.lo[d], box.extent[d]).count <= 0) return false;
  return true;
}

std::optional<SlicePart> PartIn(const Box& box, const Slice& slice, const Shape& output_strides) {
  if (!MeetsSlice(box, slice)) return std::nullopt;
  SlicePart part{Shape(box.lo.size()), Shape(box.lo.size())};
  for (size_t d = 0; d < box.lo.size(); ++d) {
    const Indices indices = Within(slice, d, box.lo[d], box.extent[d]);
    part.in_box[d] = slice.begin[d] + indices.first * slice.step[d] - box.lo[d];
    part.extent[d] = indices.count;
    part.output += indices.first * output_strides[d];
  }
  return part;
}

}  // namespace

std::optional<Move> ClipToSlice(const CopyOp& op, const StoredTensor& source, const Slice& slice,
                                const Shape& output_strides, Dtype output_dtype,
                                std::byte* output) {
  std::optional<SlicePart> part = PartIn(op.box, slice, output_strides);
  if (!part) return std::nullopt;
  Move move{&source, op.start, {}, output + part->output * ElementBytes(output_dtype)};
  Shape strides = op.strides;
  for (size_t d = 0; d < strides.size(); ++d) {
    move.start += part->in_box[d] * op.strides[d];
    if (part->extent[d] > 1) strides[d] *= slice.step[d];  // a lone index may have any step
  }
  const bool swaps = source.big_endian && Info(source.dtype).swap_bytes > 1;
  move.copy = {std::move(part->extent),
               std::move(strides),
               output_strides,
               source.dtype,
               output_dtype,
               swaps};
  return move;
}

bool Meets(const CopyOp& op, const Slice& slice) { return MeetsSlice(op.box, slice); }

Status CheckElements(const TensorPlan& plan, const BoundLayout& source,
                     const OutputTensor& output) {
  if (ElementBytes(output.dtype) == 0)
    return Unsupported("elements of dtype {} are smaller than a byte and cannot be sliced",
                       Name(output.dtype))
        .on(output.name);
  for (const CopyOp& op : plan.copies) {
    const StoredTensor& stored = source.stored[op.source];
    if (!Convertible(stored.dtype, output.dtype))
      return Unsupported("dtype {} cannot be converted to {}", Name(stored.dtype),
                         Name(output.dtype))
          .in(stored.storage->path())
          .on(stored.name);
  }
  return OkStatus();
}

Result<const std::byte*> Gatherer::Stage(const StoredTensor& tensor, uint64_t offset,
                                         uint64_t bytes) {
  const std::span<std::byte> staging =
      memory_.InStep(tensor.storage->file_offset() + offset, bytes);
  NXDKIT_TRY(tensor.storage->ReadAt(offset, staging).on(tensor.name));
  return staging.data();
}

bool Gatherer::IsOneRead(const Move& move) const {
  const uint64_t span = SourceRange(move).size();
  return span <= staging_bytes_ && WorthOneRead(Runs(move), Payload(move), span);
}

Status Gatherer::RunOne(const Move& move) {
  const ByteRange range = SourceRange(move);
  const Storage& storage = *move.source->storage;
  if (IsPlainRun(move.copy) && !CopiesSlowly(storage.file_offset() + range.begin, move.output))
    return storage.ReadAt(range.begin, {move.output, range.size()}).on(move.source->name);
  if (!IsOneRead(move)) return RunParts(move);
  NXDKIT_ASSIGN(const std::byte* const staged, Stage(*move.source, range.begin, range.size()));
  RunStridedCopy(move.copy, staged, move.output);
  return OkStatus();
}

// Splits along the widest dimension into parts that one read serves, down to single elements, which
// may be split further. One move serves all parts: a slice may have a million.
Status Gatherer::RunParts(const Move& move) {
  const size_t widest = WidestOf(move);
  const int64_t all = move.copy.extent[widest];
  Move part = move;
  int64_t count = all;
  do {
    count = (count + 1) / 2;
    part.copy.extent[widest] = count;
  } while (count > 1 && !IsOneRead(part));
  const int64_t bytes = ElementBytes(move.copy.to);
  if (count == 1 && IsPlainRun(part.copy)) return RunRows(part, all, widest);
  for (int64_t first = 0; first < all; first += count) {
    part.copy.extent[widest] = std::min(count, all - first);
    part.start = move.start + first * move.copy.source_strides[widest];
    part.output = move.output + first * move.copy.output_strides[widest] * bytes;
    NXDKIT_TRY(RunOne(part));
  }
  return OkStatus();
}

// Reads `count` runs that follow each other along a dimension, starting with `first`.
Status Gatherer::RunRows(const Move& first, int64_t count, size_t dimension) {
  const ByteRange range = SourceRange(first);
  const int64_t bytes = ElementBytes(first.copy.to);
  const int64_t from_step = first.copy.source_strides[dimension] * bytes;
  const int64_t to_step = first.copy.output_strides[dimension] * bytes;
  const Storage& storage = *first.source->storage;
  for (int64_t i = 0; i < count; ++i)
    NXDKIT_TRY(storage
                   .ReadAt(range.begin + static_cast<uint64_t>(i * from_step),
                           {first.output + i * to_step, range.size()})
                   .on(first.source->name));
  return OkStatus();
}

Status Gatherer::Run(std::vector<Move> moves) {
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) {
    if (a.source->storage != b.source->storage) return a.source->storage < b.source->storage;
    return SourceRange(a).begin < SourceRange(b).begin;
  });
  for (size_t first = 0; first < moves.size();) {
    ByteRange shared = SourceRange(moves[first]);
    uint64_t payload = Payload(moves[first]);
    uint64_t runs = Runs(moves[first]);
    size_t last = first + 1;
    for (; last < moves.size(); ++last) {
      if (moves[last].source->storage != moves[first].source->storage) break;
      const ByteRange range = SourceRange(moves[last]);
      const uint64_t end = std::max(shared.end, range.end);
      if (range.begin >= shared.end || end - shared.begin > staging_bytes_) break;
      shared.end = end;
      payload += Payload(moves[last]);
      runs += Runs(moves[last]);
    }
    if (last == first + 1 || !WorthOneRead(runs, payload, shared.size())) {
      for (size_t i = first; i < last; ++i) NXDKIT_TRY(RunOne(moves[i]));
    } else {
      NXDKIT_ASSIGN(const std::byte* const staged,
                    Stage(*moves[first].source, shared.begin, shared.size()));
      for (size_t i = first; i < last; ++i)
        RunStridedCopy(moves[i].copy, staged + (SourceRange(moves[i]).begin - shared.begin),
                       moves[i].output);
    }
    first = last;
  }
  return OkStatus();
}

void FillSlice(const Fill& fill, const Slice& slice, const Shape& output_strides, Dtype dtype,
               std::byte* output) {
  const std::optional<SlicePart> part = PartIn(fill.stored, slice, output_strides);
  if (!part) return;
  // Non-zero constants exist only for integer tensors (ranks), so their bytes are the value's.
  std::array<std::byte, 16> element{};
  std::memcpy(element.data(), &fill.value, sizeof(fill.value));
  const Shape still(part->extent.size(), 0);
  RunStridedCopy({part->extent, still, output_strides, dtype, dtype, false}, element.data(),
                 output + part->output * ElementBytes(dtype));
}

void AddSliceMoves(const TensorPlan& plan, const BoundLayout& source, Dtype output_dtype,
                   const Slice& slice, const Shape& output_strides, std::byte* to,
                   std::vector<Move>& moves) {
  for (const Fill& fill : plan.fills) FillSlice(fill, slice, output_strides, output_dtype, to);
  for (const CopyOp& op : plan.copies) {
    std::optional<Move> move =
        ClipToSlice(op, source.stored[op.source], slice, output_strides, output_dtype, to);
    if (move) moves.push_back(*std::move(move));
  }
}

void AddRangeMoves(const TensorPlan& plan, const BoundLayout& source, const OutputTensor& output,
                   int64_t first, std::span<const Box> boxes, std::byte* to,
                   std::vector<Move>& moves) {
  const Shape strides = RowMajorStrides(output.shape);
  for (const Box& box : boxes) {
    int64_t at = -first;
    for (size_t d = 0; d < strides.size(); ++d) at += box.lo[d] * strides[d];
    AddSliceMoves(plan, source, output.dtype, SliceOf(box), strides,
                  to + at * ElementBytes(output.dtype), moves);
  }
}

Status Gatherer::Read(const TensorPlan& plan, const BoundLayout& source, const OutputTensor& output,
                      uint64_t offset, std::span<std::byte> to) {
  const int64_t width = ElementBytes(output.dtype);
  NXDKIT_CHECK(offset % static_cast<uint64_t>(width) == 0);
  const int64_t first = static_cast<int64_t>(offset) / width;
  const int64_t end = first + static_cast<int64_t>(to.size()) / width;
  std::vector<Move> moves;
  AddRangeMoves(plan, source, output, first, RangeBoxes(output.shape, first, end), to.data(),
                moves);
  return Run(std::move(moves));
}

}  // namespace nxdkit
