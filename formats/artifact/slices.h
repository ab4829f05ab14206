// The parts of a tensor, where each is stored and where it goes: a plan or a layout as data for
// pictures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/artifact/bound.h"
#include "lib/plan/plan.h"

namespace nxdkit::artifact {

// A tensor that parts come from or go to.
struct SliceEnd {
  std::string name;
  uint32_t file = 0;  // of its side; a logical parameter is in none
  Dtype dtype = Dtype::kF32;
  Shape shape;
  bool operator==(const SliceEnd&) const = default;
};

// One part. The boxes are in the source, in the target and in the parameter.
struct Slice {
  uint32_t from = 0;  // index into TensorSlices::sources
  uint32_t to = 0;    // and targets
  Box source;
  Box target;
  uint32_t param = 0;  // index into TensorSlices::params
  Box logical;
};

// A constant: padding, or the number of a rank.
struct SliceFill {
  uint32_t to = 0;
  Box target;
  int64_t value = 0;
};

struct TensorSlices {
  std::string name;  // of all targets, or of the parameter
  std::vector<SliceEnd> sources;
  std::vector<SliceEnd> targets;  // one for each rank that has a part
  std::vector<LogicalTensor> params;
  std::vector<Slice> slices;
  std::vector<SliceFill> fills;

  uint64_t target_bytes() const;
};

uint64_t BoxBytes(Dtype dtype, const Shape& extent);  // of packed elements

// The heads of a parameter that a box of it meets, first and last; nullopt if it has none.
std::optional<std::pair<int64_t, int64_t>> HeadsIn(const LogicalTensor& param, const Box& logical);

// Short labels of files: their ranks ("tp 3", "tp 3, pp 1") if these tell all of them apart, else
// their names without the folders, else their paths.
std::vector<std::string> FileLabels(const std::vector<LayoutFile>& files);

// The box of an output that a copy fills, in its parameter.
Box LogicalBoxOf(const Piece& piece, const CopyOp& op);

// The box of the stored tensor that a copy reads. The whole tensor if its elements overlap.
Box SourceBoxOf(const CopyOp& op, const StoredTensor& stored);

// For each parameter that is stored: the tensors with parts of it. The only source is the parameter
// itself. In the order of the parameters.
std::vector<TensorSlices> HeldSlices(const BoundArtifact& bound);

}  // namespace nxdkit::artifact
