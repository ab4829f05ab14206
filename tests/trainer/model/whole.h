// PRIVATE to tests. The places of a rank's elements in the whole parameter.
#pragma once

#include <cstdint>

#include "trainer/model/param_table.h"

namespace nxdkit::trainer {

// The number, row-major in `whole`, of element `i` of the slot.
inline int64_t PlaceInWhole(const Slot& slot, const Shape& whole, int64_t i) {
  const int64_t columns = whole.size() == 2 ? whole[1] : 1;
  const int64_t own_columns = slot.shape.size() == 2 ? slot.shape[1] : 1;
  const int64_t row = i / own_columns + (slot.cut_dim == 0 ? slot.cut_begin : 0);
  const int64_t column = i % own_columns + (slot.cut_dim == 1 ? slot.cut_begin : 0);
  return row * columns + column;
}

}  // namespace nxdkit::trainer
