#include "lib/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace nxdkit {
namespace {

struct BadRow {
  const char* what;
  std::string text;
  size_t offset;
};

TEST(ValidateUtf8, RefusesAt) {
  const BadRow rows[] = {
      {"lone continuation", "ab\x80", 2},
      {"overlong slash", "\xc0\xaf", 0},
      {"overlong of two", "a\xc1\xbf", 1},
      {"overlong of three", "\xe0\x9f\xbf", 0},
      {"overlong of four", "\xf0\x8f\xbf\xbf", 0},
      {"surrogate low end", "x\xed\xa0\x80", 1},
      {"surrogate high end", "\xed\xbf\xbf", 0},
      {"above U+10FFFF", "\xf4\x90\x80\x80", 0},
      {"0xf5", "\xf5\x80\x80\x80", 0},
      {"0xff", "12345678\xff", 8},
      {"cut in two", "\xc3", 0},
      {"cut in three", "abc\xe2\x82", 3},
      {"cut in four", "\xf0\x9f\x98", 0},
      {"bad second byte", "\xe2(\xa1", 0},
      {"in a word of eight",
       "0123456701234\xfe"
       "67",
       13},
  };
  for (const BadRow& row : rows) EXPECT_EQ(ValidateUtf8(row.text), row.offset) << row.what;
}

TEST(ValidateUtf8, AcceptsTheEnds) {
  for (const std::string text :
       {"", "ascii only, longer than eight", "\x7f\xc2\x80\xdf\xbf",
        "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(ValidateUtf8(text), std::nullopt) << text;
  EXPECT_EQ(ValidateUtf8(std::string("\0", 1)), std::nullopt);
}

// Every code point encodes to something that decodes to it.
TEST(DecodeUtf8, EveryCodePoint) {
  for (uint32_t point = 0; point <= 0x10ffff; ++point) {
    if (point >= 0xd800 && point <= 0xdfff) continue;
    std::string text;
    if (point < 0x80) {
      text += static_cast<char>(point);
    } else if (point < 0x800) {
      text += static_cast<char>(0xc0 | point >> 6);
      text += static_cast<char>(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
      text += static_cast<char>(0xe0 | point >> 12);
      text += static_cast<char>(0x80 | (point >> 6 & 0x3f));
      text += static_cast<char>(0x80 | (point & 0x3f));
    } else {
      text += static_cast<char>(0xf0 | point >> 18);
      text += static_cast<char>(0x80 | (point >> 12 & 0x3f));
      text += static_cast<char>(0x80 | (point >> 6 & 0x3f));
      text += static_cast<char>(0x80 | (point & 0x3f));
    }
    const auto decoded = DecodeUtf8(text, 0);
    ASSERT_TRUE(decoded) << point;
    ASSERT_EQ(decoded->value, point);
    ASSERT_EQ(static_cast<size_t>(decoded->bytes), text.size());
  }
}

}  // namespace
}  // namespace nxdkit
