#include "lib/hash/base64.h"

#include <gtest/gtest.h>

namespace nxdkit {
namespace {

TEST(Base64, IsThatOfRfc4648) {
  const std::pair<const char*, const char*> table[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : table) {
    EXPECT_EQ(Base64Text(bytes), text);
    EXPECT_EQ(ParseBase64(text), bytes);
  }
  EXPECT_EQ(ParseBase64(Base64Text(std::string("\0\xff\x80", 3))), std::string("\0\xff\x80", 3));
}

TEST(Base64, RefusesWhatItDoesNotWrite) {
  for (const char* text : {"Zg", "Zg=", "Zh==", "Zm9v\n", " Zm9v", "Zm9=", "====", "Zm=v", "Zm9_"})
    EXPECT_EQ(ParseBase64(text), std::nullopt) << text;
}

// The pieces of the encoder join.
TEST(Base64, OfManyMegabytes) {
  std::string bytes(size_t{7} << 20, 'x');
  bytes += "yz";
  const std::string text = Base64Text(bytes);
  EXPECT_EQ(text.size(), (bytes.size() + 2) / 3 * 4);
  EXPECT_EQ(ParseBase64(text), bytes);
}

}  // namespace
}  // namespace nxdkit
