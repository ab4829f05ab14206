// PRIVATE to formats/delta: the fixed parts of the file, for reader and writer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/delta/delta.h"

namespace nxdkit::delta {

// header | payload: the blocks | table | meta
inline constexpr char kMagic[8] = {'\x89', 'N', 'X', 'D', 'D', '\r', '\n', '\x1a'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint64_t kHeaderBytes = 72;
inline constexpr uint64_t kSumAt = 40;  // SHA-256 of the header before it, the table and the meta
inline constexpr uint64_t kDigestBytes = 32;
inline constexpr uint64_t kTableRow = 8;  // u32 bytes, u32 CRC-32 of a block
inline constexpr uint64_t kMaxMetaBytes = 64 << 20;

// The table begins with the digests of base and result, then those of each parameter.
inline uint64_t DigestsBytes(uint64_t params) { return 2 * kDigestBytes * (1 + params); }

std::array<std::byte, kHeaderBytes> MakeHeader(Coding coding, uint64_t payload_bytes,
                                               std::span<const std::byte> table,
                                               std::span<const std::byte> meta);

// The meta: JSON of the parameters, without digests.
std::string WriteMeta(const std::vector<Param>& params);
// kCorrupt, kUnsupported with the parameter or the key.
Result<std::vector<Param>> ReadMeta(std::string_view text);

}  // namespace nxdkit::delta
