#include "formats/artifact/canonical_reader.h"

#include <utility>
#include <vector>

namespace nxdkit::ops {

Status CanonicalReader::Read(size_t param, uint64_t offset, std::span<std::byte> to,
                             Gatherer& gatherer) const {
  const OutputTensor& output = plan_.outputs[param];
  const int64_t width = ElementBytes(output.dtype);
  const int64_t first = static_cast<int64_t>(offset) / width;
  const int64_t end = first + static_cast<int64_t>(to.size()) / width;
  NXDKIT_CHECK(offset % static_cast<uint64_t>(width) == 0);
  const Shape strides = RowMajorStrides(output.shape);
  std::vector<Move> moves;
  std::byte* at = to.data();
  for (const Box& box : RangeBoxes(output.shape, first, end)) {
    for (const CopyOp& op : plan_.plan.tensors[param].copies) {
      std::optional<Move> move =
          ClipToChunk(op, bound_.stored[op.source], box, strides, output.dtype, at);
      if (move) moves.push_back(*std::move(move));
    }
    at += box.Volume() * width;
  }
  return gatherer.Run(std::move(moves));
}

}  // namespace nxdkit::ops
