#include "lib/hash/crc32.h"

#include <isa-l.h>
#include <zlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>

namespace nxdkit {
namespace {

// isa-l's loops leave the upper halves of the vector registers in use. Until they are cleared, SSE
// code, such as SHA-256, stalls and runs at half its speed; threads inherit it.
#if defined(__x86_64__)
__attribute__((target("avx"))) void ClearUpperHalves() { _mm256_zeroupper(); }

void LeaveVectors() {
  static const bool has_avx = __builtin_cpu_supports("avx") != 0;
  if (has_avx) ClearUpperHalves();
}
#else
void LeaveVectors() {}
#endif

}  // namespace

// isa-l: about 6 times as fast as zlib's own.
uint32_t Crc32(uint32_t crc, std::span<const std::byte> bytes) {
  if (bytes.empty()) return crc;
  const uint32_t out =
      ::crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  LeaveVectors();
  return out;
}

// isa-l takes the length of this one as an int, and leaves both inversions to its caller.
uint32_t Crc32c(uint32_t crc, std::span<const std::byte> bytes) {
  constexpr size_t kMost = size_t{1} << 30;
  crc = ~crc;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(kMost, bytes.size()))) {
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    crc = ::crc32_iscsi(data, static_cast<int>(std::min(kMost, bytes.size())), crc);
  }
  LeaveVectors();
  return ~crc;
}

uint32_t Crc32Combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) {
  return static_cast<uint32_t>(::crc32_combine(crc_a, crc_b, static_cast<z_off_t>(bytes_b)));
}

}  // namespace nxdkit
