#include "lib/hash/digest.h"

#include <gtest/gtest.h>

#include <string_view>

#include "tests/lib/hash/bytes_of.h"

namespace nxdkit {
namespace {

using testing_util::BytesOf;

// FIPS 180-4 examples.
TEST(Sha256, KnownValues) {
  EXPECT_EQ(Sha256Hex(BytesOf("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex(BytesOf("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(BytesOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, StreamsAndBeginsAnew) {
  Sha256 sha;
  const std::string million(1'000'000, 'a');
  for (size_t i = 0; i < million.size(); i += 7919)
    sha.Update(BytesOf(std::string_view(million).substr(i, 7919)));
  EXPECT_EQ(HexText(sha.Finish()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  sha.Update(BytesOf("abc"));
  EXPECT_EQ(HexText(sha.Finish()), Sha256Hex(BytesOf("abc")));
  Sha256 moved = std::move(sha);
  EXPECT_EQ(HexText(moved.Finish()), Sha256Hex({}));
}

}  // namespace
}  // namespace nxdkit
