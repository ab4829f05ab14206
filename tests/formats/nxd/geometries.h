// Geometries of NxD sets as the tests name them, without their other members spelled out.
#pragma once

#include "formats/nxd/nxd_layout.h"

namespace nxdkit::nxd {

inline Geometry Of(int tp, QkvStyle qkv, int m = 1,
                   models::Hardware hardware = models::Hardware::kTrn1) {
  Geometry geometry;
  geometry.tp = tp;
  geometry.qkv = qkv;
  geometry.kv_multiplier = m;
  geometry.hardware = hardware;
  return geometry;
}

inline Geometry Named(Geometry geometry, NameStyle names) {
  geometry.names = names;
  return geometry;
}
inline Geometry Megatron(Geometry geometry) { return Named(geometry, NameStyle::kMegatron); }

}  // namespace nxdkit::nxd
