// Two messages at once, compared with OpenSSL one by one, and with values of Python's hashlib.
#include "lib/hash/sha256_pair.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace nxdkit {
namespace {

std::vector<std::byte> Random(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> out(bytes);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

Sha256Bytes ByOpenSsl(std::byte mark, std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.Update({&mark, 1});
  sha.Update(bytes);
  return sha.Finish();
}

TEST(Sha256Pair, KnownValues) {
  const std::vector<std::byte> letters = {std::byte{'b'}, std::byte{'c'}};
  const auto [abc, a] = Sha256Pair(std::byte{'a'}, letters, {});
  EXPECT_EQ(HexText(abc), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexText(a), "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb");
}

// Every length around one, two and three blocks, with every other: where padding needs another
// block, and where one message continues alone.
TEST(Sha256Pair, AllShortLengths) {
  const std::vector<std::byte> first = Random(200, 1);
  const std::vector<std::byte> second = Random(200, 2);
  std::vector<Sha256Bytes> of_first, of_second;
  for (size_t n = 0; n <= 200; ++n) {
    of_first.push_back(ByOpenSsl(std::byte{0}, std::span(first).first(n)));
    of_second.push_back(ByOpenSsl(std::byte{0}, std::span(second).first(n)));
  }
  for (size_t a = 0; a <= 200; ++a)
    for (size_t b = 0; b <= 200; ++b) {
      const auto pair =
          Sha256Pair(std::byte{0}, std::span(first).first(a), std::span(second).first(b));
      ASSERT_EQ(pair[0], of_first[a]) << a << " beside " << b;
      ASSERT_EQ(pair[1], of_second[b]) << b << " beside " << a;
    }
}

// In pieces of whole blocks, and of every length at the end.
TEST(Sha256Both, IsTheDigestOfEachMessage) {
  const std::vector<std::byte> first = Random(1000, 4);
  const std::vector<std::byte> second = Random(1000, 5);
  for (size_t piece : {64, 192, 512})
    for (size_t size = 0; size <= 700; ++size) {
      Sha256Both both;
      for (size_t at = 0; at < size; at += piece) {
        const size_t part = std::min(piece, size - at);
        both.Update(std::span(first).subspan(at, part), std::span(second).subspan(at, part));
      }
      Sha256 a, b;
      a.Update(std::span(first).first(size));
      b.Update(std::span(second).first(size));
      const auto digests = both.Finish();
      ASSERT_EQ(digests[0], a.Finish()) << size << " in pieces of " << piece;
      ASSERT_EQ(digests[1], b.Finish()) << size << " in pieces of " << piece;
    }
}

TEST(Sha256Pair, LongMessagesAtAnyAddress) {
  const std::vector<std::byte> bytes = Random(300'000, 3);
  for (size_t at : {size_t{0}, size_t{1}, size_t{7}, size_t{63}, size_t{64}}) {
    const std::span a = std::span(bytes).subspan(at, 131'072);
    const std::span b = std::span(bytes).subspan(2 * at + 5, 200'000 + at);
    const auto pair = Sha256Pair(std::byte{9}, a, b);
    EXPECT_EQ(pair[0], ByOpenSsl(std::byte{9}, a)) << at;
    EXPECT_EQ(pair[1], ByOpenSsl(std::byte{9}, b)) << at;
  }
}

}  // namespace
}  // namespace nxdkit
