// CRC-32 as zip and gzip use it (polynomial 0xEDB88320, reflected), and CRC-32C (Castagnoli,
// 0x82F63B78), as TFRecord files do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nxdkit {

// Continues `crc` (0 to begin) over `bytes`.
uint32_t Crc32(uint32_t crc, std::span<const std::byte> bytes);

// CRC of a followed by b, from the CRC of each and the length of b: threads that wrote
// neighbouring chunks need not read them again.
uint32_t Crc32Combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b);

uint32_t Crc32c(uint32_t crc, std::span<const std::byte> bytes);

}  // namespace nxdkit
