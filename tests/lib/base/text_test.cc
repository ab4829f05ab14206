#include "lib/base/text.h"

#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using testing_util::ExpectError;

TEST(EscapeControl, Table) {
  const std::pair<std::string, std::string> rows[] = {
      {"model.layers.0", "model.layers.0"},
      {"caf\xc3\xa9 \xf0\x9f\x98\x80", "caf\xc3\xa9 \xf0\x9f\x98\x80"},
      {"a\nb\tc", "a\\x0ab\\x09c"},
      {"\x1b[31mred", "\\x1b[31mred"},
      {std::string("\0x", 2), "\\x00x"},
      {"\x7f", "\\x7f"},
      {"\xc2\x9b"
       "31m",
       "\\xc2\\x9b31m"},  // C1: CSI
      {"\xff\xfe ok", "\\xff\\xfe ok"},
      {"cut \xe2\x82", "cut \\xe2\\x82"},
      {"evil\xe2\x80\xae"
       "txt",
       "evil\\xe2\\x80\\xaetxt"},           // right-to-left override
      {"\xe2\x80\xa8", "\\xe2\\x80\\xa8"},  // line separator
  };
  for (const auto& [text, escaped] : rows) EXPECT_EQ(EscapeControl(text), escaped);
}

TEST(ShortName, CutsWhatNobodyReads) {
  EXPECT_EQ(ShortName("model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(ShortName(std::string(500, 'x')), std::string(500, 'x'));
  EXPECT_EQ(ShortName(std::string(1 << 20, 'x')), std::string(200, 'x') + "... (1048576 bytes)");
  // No code point is cut: 199 bytes and one of two.
  const std::string accents = std::string(199, 'x') + "\xc3\xa9" + std::string(400, 'y');
  EXPECT_EQ(ShortName(accents), std::string(199, 'x') + "... (601 bytes)");
}

TEST(ShortText, CutsEachLongWordAndThenTheMiddle) {
  const std::string name(1 << 20, 'n');
  EXPECT_EQ(ShortText("'" + name + "' is not a parameter\nof " + name),
            "'" + std::string(199, 'n') + "... (1048578 bytes) is not a parameter\nof " +
                std::string(200, 'n') + "... (1048576 bytes)");
  std::string words = "begin";
  for (int i = 0; i < 10'000; ++i) words += " word";
  const std::string cut = ShortText(words + " end");
  EXPECT_LT(cut.size(), 4000u);
  EXPECT_TRUE(cut.starts_with("begin word")) << cut;
  EXPECT_TRUE(cut.ends_with(" word end")) << cut;
  EXPECT_NE(cut.find("... (50009 bytes) ..."), std::string::npos) << cut;
}

TEST(HumanBytes, ThreeDigits) {
  const std::pair<uint64_t, const char*> rows[] = {{0, "0 B"},
                                                   {999, "999 B"},
                                                   {1000, "1.00 kB"},
                                                   {1005, "1.00 kB"},
                                                   {9990, "9.99 kB"},
                                                   {9996, "10.0 kB"},
                                                   {99'949, "99.9 kB"},
                                                   {99'951, "100 kB"},
                                                   {999'499, "999 kB"},
                                                   {999'500, "1.00 MB"},
                                                   {15'300'000'000, "15.3 GB"},
                                                   {UINT64_MAX, "18.4 EB"}};
  for (const auto& [bytes, text] : rows) EXPECT_EQ(HumanBytes(bytes), text) << bytes;
}

TEST(HumanRate, PerSecond) {
  EXPECT_EQ(HumanRate(2'500'000'000, 2), "1.25 GB/s");
  EXPECT_EQ(HumanRate(1, 4), "0 B/s");
  EXPECT_EQ(HumanRate(5, 0), "- B/s");
  EXPECT_EQ(HumanRate(5, -1), "- B/s");
}

TEST(Counted, HasTheNounInItsNumberAndGroupedThousands) {
  EXPECT_EQ(Counted(0, "file"), "0 files");
  EXPECT_EQ(Counted(1, "file"), "1 file");
  EXPECT_EQ(Counted(size_t{2}, "file"), "2 files");
  EXPECT_EQ(Counted(254'656, "parameter"), "254,656 parameters");
  EXPECT_EQ(Counted(1, "entry"), "1 entry");
  EXPECT_EQ(Counted(3, "entry"), "3 entries");
  EXPECT_EQ(Counted(3, "day"), "3 days");
  EXPECT_EQ(Counted(2, "index"), "2 indexes");
  EXPECT_EQ(Counted(2, "alias"), "2 aliases");
  EXPECT_EQ(Counted(2, "batch"), "2 batches");
  EXPECT_EQ(Counted(-1000, "step"), "-1,000 steps");
}

TEST(Grouped, CommasAtThousands) {
  EXPECT_EQ(Grouped(uint64_t{0}), "0");
  EXPECT_EQ(Grouped(uint64_t{999}), "999");
  EXPECT_EQ(Grouped(uint64_t{1000}), "1,000");
  EXPECT_EQ(Grouped(int64_t{-999}), "-999");
  EXPECT_EQ(Grouped(INT64_MIN), "-9,223,372,036,854,775,808");
  EXPECT_EQ(Grouped(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(ShortenMiddle, KeepsBothEndsAndCountsCodePoints) {
  EXPECT_EQ(ShortenMiddle("model.layers.0.weight", 21), "model.layers.0.weight");
  EXPECT_EQ(ShortenMiddle("model.layers.0.weight", 12), "mode...eight");
  EXPECT_EQ(ShortenMiddle("model.layers.0.weight", 5), "m...t");
  EXPECT_EQ(ShortenMiddle("model.layers.0.weight", 4), "mode");
  EXPECT_EQ(ShortenMiddle("", 0), "");
  const std::string umlauts = "\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc\u00e4\u00f6";
  EXPECT_EQ(TextColumns(umlauts), 8u);
  EXPECT_EQ(ShortenMiddle(umlauts, 7), "\u00e4\u00f6...\u00e4\u00f6");
}

TEST(ShortenStart, KeepsLayerAndModule) {
  const std::string name = "model.layers.27.self_attn.q_proj.weight";
  EXPECT_EQ(ShortenStart(name, 39), name);
  EXPECT_EQ(ShortenStart(name, 29), "...27.self_attn.q_proj.weight");
  EXPECT_EQ(ShortenStart(name, 5), "...ht");
  EXPECT_EQ(ShortenStart(name, 4), "mode");
  EXPECT_EQ(ShortenStart("", 0), "");
  EXPECT_EQ(ShortenStart("\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc", 5), "...\u00f6\u00fc");
}

TEST(ParseBytes, Sizes) {
  const std::pair<const char*, uint64_t> rows[] = {
      {"0", 0},
      {"4096", 4096},
      {"17B", 17},
      {"4G", 4'000'000'000},
      {"4GB", 4'000'000'000},
      {"4GiB", uint64_t{4} << 30},
      {"500M", 500'000'000},
      {"512MiB", uint64_t{512} << 20},
      {"1.5k", 1500},
      {"1.5 gib", 3 * (uint64_t{1} << 29)},
      {"2T", 2'000'000'000'000},
      {"1TiB", uint64_t{1} << 40},
      {"0.125KiB", 128},
      {"18446744073709551615", UINT64_MAX},
  };
  for (const auto& [text, bytes] : rows) {
    const Result<uint64_t> found = ParseBytes(text);
    ASSERT_TRUE(found.ok()) << text << ": " << found.error().message();
    EXPECT_EQ(*found, bytes) << text;
  }
}

TEST(ParseBytes, Refuses) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "is not a size"},
      {"G", "is not a size"},
      {"-1", "is not a size"},
      {"+1", "is not a size"},
      {".5G", "is not a size"},
      {"1.G", "is not a size"},
      {"1.5", "whole number"},
      {"0.0001K", "whole number"},
      {"4GX", "unit"},
      {"4  G", "unit"},
      {"4G ", "unit"},
      {"1e9", "unit"},
      {"0x10", "unit"},
      {"1.2.3", "unit"},
      {"18446744073709551616", "too long"},
      {"1.0000000000000000000000000001G", "too long"},
      {"18446745T", "2^64"},
      {"17179869184GiB", "2^64"},
  };
  for (const auto& [text, part] : rows) {
    const std::optional<Error> error = ExpectError(ParseBytes(text), Errc::kUsage, part);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->hint(), ::testing::HasSubstr("4GiB"));
  }
}

TEST(EditDistance, Table) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("abc", ""), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("flaw", "lawn"), 2u);
  EXPECT_EQ(EditDistance("form", "from"), 1u) << "a swap is one edit";
  EXPECT_EQ(EditDistance("ab", "ba"), 1u);
  EXPECT_EQ(EditDistance("abcd", "badc"), 2u);
}

TEST(ClosestWord, NearestOrNone) {
  const std::vector<std::string> words = {"--tp", "--pp", "--max-memory", "--max-shard-size"};
  EXPECT_EQ(ClosestWord("--max-memroy", words), "--max-memory");
  EXPECT_EQ(ClosestWord("--xp", words), "--tp");  // the first of equals
  EXPECT_EQ(ClosestWord("--verbose", words), std::nullopt);
  EXPECT_EQ(ClosestWord("--tp", {}), std::nullopt);
  const std::vector<std::string> alike = {"--force", "--from"};
  EXPECT_EQ(ClosestWord("--form", alike), "--from");
}

struct GlobRow {
  const char* pattern;
  const char* text;
  bool match;
};

TEST(GlobMatch, Table) {
  const GlobRow rows[] = {
      {"", "", true},
      {"", "a", false},
      {"*", "", true},
      {"*", "abc", true},
      {"?", "", false},
      {"?", "a", true},
      {"a?c", "abc", true},
      {"a*c", "abbbc", true},
      {"a*c", "abcb", false},
      {"*.q_proj.*", "model.layers.3.q_proj.weight", true},
      {"*a*b*c", "xxaxxbxxbxc", true},
      {"a**b", "ab", true},
      {"[a]", "a", false},
      {"[a]", "[a]", true},
      {"abc", "abcd", false},
      {"abc?", "abc", false},
      {"\\*", "\\x", true},
  };
  for (const GlobRow& row : rows)
    EXPECT_EQ(GlobMatch(row.pattern, row.text), row.match) << row.pattern << " on " << row.text;
}

// Exponential time in a matcher that tries every star.
TEST(GlobMatch, ManyStarsAreNoTrap) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "a*";
  EXPECT_FALSE(GlobMatch(pattern + "b", std::string(5000, 'a')));
}

}  // namespace
}  // namespace nxdkit
