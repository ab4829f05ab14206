#include "lib/hash/crc32.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/lib/hash/bytes_of.h"

namespace nxdkit {
namespace {

using testing_util::BytesOf;

uint32_t CrcOf(std::string_view text) { return Crc32(0, BytesOf(text)); }

TEST(Crc32, KnownValues) {
  EXPECT_EQ(CrcOf(""), 0u);
  EXPECT_EQ(CrcOf("123456789"), 0xcbf43926u);  // the check value of the CRC catalogues
  EXPECT_EQ(CrcOf("The quick brown fox jumps over the lazy dog"), 0x414fa339u);
}

TEST(Crc32, AgreesWithZlibAndCombines) {
  std::vector<std::byte> bytes(100'003);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i >> 3);
  const auto whole = static_cast<uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
  EXPECT_EQ(Crc32(0, bytes), whole);
  const std::span<const std::byte> span(bytes);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{4096}, bytes.size() - 1, bytes.size()}) {
    const auto a = span.first(cut);
    const auto b = span.subspan(cut);
    EXPECT_EQ(Crc32(Crc32(0, a), b), whole) << cut;
    EXPECT_EQ(Crc32Combine(Crc32(0, a), Crc32(0, b), b.size()), whole) << cut;
  }
}

// The check value of the catalogues, and the vectors of RFC 3720, B.4.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(Crc32c(0, {}), 0u);
  EXPECT_EQ(Crc32c(0, BytesOf("123456789")), 0xE3069283u);
  EXPECT_EQ(Crc32c(0, BytesOf(std::string(32, '\0'))), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(0, BytesOf(std::string(32, '\xff'))), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(Crc32c(0, BytesOf("1234")), BytesOf("56789")), 0xE3069283u);
}

// Lengths over 32 bits: 5 GiB of zeros, combined from 1 GiB of them.
TEST(Crc32, CombinesLongLengths) {
  uint32_t crc_1m = 0;
  const std::vector<std::byte> zeros(1 << 20);
  crc_1m = Crc32(0, zeros);
  uint32_t crc = crc_1m;
  uint64_t bytes = zeros.size();
  for (int i = 0; i < 10; ++i) {  // doubling: 1 GiB
    crc = Crc32Combine(crc, crc, bytes);
    bytes *= 2;
  }
  const uint32_t crc_1g = crc;
  for (int i = 0; i < 4; ++i) crc = Crc32Combine(crc, crc_1g, bytes);
  uint32_t other = crc_1g;
  for (uint64_t length = bytes; length < 5 * bytes; length += bytes)
    other = Crc32Combine(crc_1g, other, length);
  EXPECT_EQ(crc, other);
  EXPECT_NE(crc, crc_1g);
}

}  // namespace
}  // namespace nxdkit
