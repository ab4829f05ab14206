#include "trainer/comm/mesh.h"

#include <fmt/core.h>

#include <utility>

namespace nxdkit::trainer {

Result<Mesh> Mesh::Make(Comm& world, int tp_size) {
  if (tp_size < 1 || world.size() % tp_size != 0)
    return Error(Errc::kUsage, fmt::format("{} ranks cannot be divided into groups of {}",
                                           world.size(), tp_size));
  Mesh mesh;
  mesh.world = &world;
  NXDKIT_ASSIGN(mesh.tp, world.Split(world.rank() / tp_size, world.rank()));
  NXDKIT_ASSIGN(mesh.dp, world.Split(world.rank() % tp_size, world.rank()));
  return mesh;
}

}  // namespace nxdkit::trainer
