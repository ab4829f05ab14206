// The slice plan: for each output tensor, the source boxes that fill it, cancelled down to direct
// stored-to-stored copies. A plan is data: it prints, counts bytes and runs in any order.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/plan/box_tree.h"
#include "lib/plan/layout.h"
#include "lib/tensor/tensor.h"

namespace nxdkit {

// Copies a box of one stored tensor into a box of an output tensor, element by element:
//   out[lo + i] = source element at  start + sum(i[d] * strides[d])   for 0 <= i < extent.
// All in elements; `strides` and `start` are those of the source, per output dimension.
struct CopyOp {
  uint32_t source = 0;  // index into the source's tensors
  uint32_t piece = 0;   // index into the output tensor's pieces, for messages
  Box box;              // in the output tensor
  int64_t start = 0;
  Shape strides;
};

CopyOp CopyWhole(const StoredTensor& stored, uint32_t index);

// The ops that fill one output tensor. They are disjoint and, with the fills, cover it.
struct TensorPlan {
  std::vector<CopyOp> copies;
  std::vector<Fill> fills;
};

// A layout bound to real bytes: stored[i] holds layout.tensors[i].
struct BoundLayout {
  Layout layout;
  std::vector<StoredTensor> stored;

  void Add(TensorLayout tensor, StoredTensor from);
};

struct Plan {
  std::vector<TensorPlan> tensors;  // one per output tensor, in the output layout's order
};

// Checks that each stored tensor has the layout's shape (and fixed dtype); kCorrupt naming file,
// tensor, found and expected.
Status CheckBinding(const BoundLayout& bound);

// For each parameter the boxes of source pieces that together cover it once: the first piece that
// stores an element is its primary place, all others are replicas. kCorrupt if an element of a
// parameter is stored nowhere (names parameter and box), kUnsupported for pieces that overlap in
// more ways than BoxWork has steps for.
class PrimaryPlaces {
 public:
  struct Place {
    uint32_t tensor;  // index into the layout's tensors
    uint32_t piece;
    Box logical;  // the part of the piece that is primary
  };
  // `allow_missing`: parameters that are not stored at all have no places.
  static Result<PrimaryPlaces> Find(const std::vector<LogicalTensor>& params, const Layout& layout,
                                    bool allow_missing = false);
  const std::vector<Place>& of(uint32_t param) const { return places_[param]; }
  // The indices of the places of a parameter that meet a box of it, ascending.
  std::vector<uint32_t> Meeting(uint32_t param, const Box& box) const {
    return trees_[param].Meeting(box);
  }

 private:
  std::vector<std::vector<Place>> places_;
  std::vector<BoxTree> trees_;  // of the places, which they point into
};

// The plan that fills `output` from `source`. Both layouts refer to `params`.
Result<Plan> BuildPlan(const std::vector<LogicalTensor>& params, const BoundLayout& source,
                       const Layout& output);

// The plan that predicts the replicas and fills of a layout from its own primary places: compared
// with the stored values, it proves that replicas are equal and padding is zero. Tensors without
// either have empty plans.
Result<Plan> BuildSelfPlan(const std::vector<LogicalTensor>& params, const BoundLayout& bound);

}  // namespace nxdkit
