// PRIVATE: runs of elements of a tensor that was flattened, as boxes of it. FSDP1 keeps what its
// optimizer has as slices of flat parameters.
#pragma once

#include <vector>

#include "formats/dtensor/sharding.h"

namespace nxdkit::fsdp {

// A box of the tensor, and the place of its first element in the run, which has its elements in
// order.
struct FlatBox {
  Box box;
  int64_t at = 0;
};

// The elements [first, first + count) of a row-major tensor, in at most two boxes for each of its
// dimensions. They must be in it.
std::vector<FlatBox> BoxesOf(const Shape& shape, int64_t first, int64_t count);

}  // namespace nxdkit::fsdp
