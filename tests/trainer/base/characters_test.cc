#include "trainer/base/characters.h"

#include <gtest/gtest.h>

namespace nxdkit::trainer {
namespace {

TEST(Characters, WhiteSpaceIsThatOfUnicodeAndOfPython) {
  for (const uint32_t point : {0x09u, 0x20u, 0x85u, 0xa0u, 0x2003u, 0x3000u}) {
    EXPECT_TRUE(IsWhiteSpace(point)) << point;
    EXPECT_TRUE(IsPythonSpace(point)) << point;
  }
  EXPECT_FALSE(IsWhiteSpace(0x1c));
  EXPECT_TRUE(IsPythonSpace(0x1c));
  for (const uint32_t point : {0x08u, 0x180eu, 0x200bu})
    EXPECT_FALSE(IsPythonSpace(point)) << point;
}

TEST(Characters, StripTakesWholeCharacters) {
  EXPECT_EQ(Strip("\u3000 a\u00a0b\x1c\u2003"), "a\u00a0b");
  EXPECT_EQ(Strip(" \t\n"), "");
  EXPECT_EQ(Strip(""), "");
  EXPECT_EQ(Strip(" \x80 "), "\x80") << "a byte of no character is not white space";
}

TEST(Characters, CountsCodePointsAndBrokenBytes) {
  EXPECT_EQ(CountChars("a\u00e9\u4e00\U0001f600"), 4u);
  EXPECT_EQ(CountChars("\xff\xc3"), 2u);
  EXPECT_EQ(CharBytes("\u4e00", 0), 3u);
  EXPECT_EQ(CharBytes("\u4e00", 1), 1u);
  EXPECT_EQ(SpaceBytes("a\u3000", 1), 3u);
  EXPECT_EQ(SpaceBytes("a", 1), 0u);
}

TEST(Characters, CaseMapsOneCharacterToOne) {
  EXPECT_EQ(ToLower("A\u00c9\u0416\xff"), "a\u00e9\u0436\xff");
  std::string text;
  for (const uint32_t point : {0x41u, 0xe9u, 0x4e00u, 0x1f600u}) AppendUtf8(point, &text);
  EXPECT_EQ(text, "A\u00e9\u4e00\U0001f600");
}

}  // namespace
}  // namespace nxdkit::trainer
