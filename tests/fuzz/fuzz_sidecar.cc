// nxdkit.json of an NxD tag: parsed, and the parsed values written and read again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "formats/nxd/sidecar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace nxd = nxdkit::nxd;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto sidecar = nxd::ParseSidecar(text, "nxdkit.json");
  if (!sidecar.ok()) {
    const nxdkit::Errc code = sidecar.error().code();
    if (code != nxdkit::Errc::kCorrupt && code != nxdkit::Errc::kUnsupported) std::abort();
    return 0;
  }
  const nxd::Claims& claims = sidecar->claims;
  nxd::Geometry geometry;
  geometry.tp = claims.tp.value();
  geometry.pp = claims.pp.value();
  geometry.vpp = claims.vpp.value();
  geometry.kv_multiplier = claims.kv_multiplier.value();
  geometry.qkv = claims.qkv.value();
  geometry.hardware = claims.hardware.value();
  geometry.names = claims.names.value();
  const auto again = nxd::ParseSidecar(
      nxd::WriteSidecar(geometry, sidecar->family, sidecar->family_sha256, sidecar->dtype, "0"),
      "nxdkit.json");
  if (!again.ok() || again->claims.tp != claims.tp || again->claims.qkv != claims.qkv ||
      again->family != sidecar->family || again->dtype != sidecar->dtype)
    std::abort();
  return 0;
}
