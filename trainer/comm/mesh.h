// The TP x DP mesh: world rank = dp_rank * tp + tp_rank, so that the ranks of a tensor-parallel
// group are neighbours.
#pragma once

#include <memory>

#include "trainer/comm/comm.h"

namespace nxdkit::trainer {

struct Mesh {
  Comm* world = nullptr;  // not owned
  std::unique_ptr<Comm> tp;
  std::unique_ptr<Comm> dp;
  int tp_rank() const { return tp->rank(); }
  int dp_rank() const { return dp->rank(); }

  // Collective. kUsage when the world's size is not a multiple of `tp_size`.
  static Result<Mesh> Make(Comm& world, int tp_size);
};

}  // namespace nxdkit::trainer
