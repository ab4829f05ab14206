#include "trainer/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/trainer/text/tokenizer_json.h"

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallTokenizer;
using Ids = std::vector<int32_t>;

const std::string kData = std::string(NXDKIT_TESTDATA) + "/tokenizer/";

Tokenizer Make(const Json& json) {
  Result<Tokenizer> tokenizer = Tokenizer::Parse(json.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  return *std::move(tokenizer);
}

Ids Encode(const Tokenizer& tokenizer, std::string_view text, bool special = false) {
  const Result<Ids> ids = tokenizer.Encode(text, special);
  EXPECT_TRUE(ids.ok()) << ids.error().ToString();
  return ids.ok() ? *ids : Ids{-1};
}

class Goldens : public ::testing::TestWithParam<const char*> {};

TEST_P(Goldens, AreMet) {
  const std::string folder = kData + GetParam();
  const Result<Tokenizer> tokenizer = Tokenizer::Open(folder + "/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  const Result<Json> rows = ReadJsonFile(folder + "/expected.json", 1 << 20);
  ASSERT_TRUE(rows.ok()) << rows.error().ToString();
  ASSERT_GT(rows->size(), 140u);
  for (const Json& row : *rows) {
    const Ids ids = row["ids"].get<Ids>();
    if (row.contains("text")) {
      EXPECT_EQ(Encode(*tokenizer, row["text"].get<std::string>(), true), ids) << row["text"];
    }
    EXPECT_EQ(tokenizer->Decode(ids, true), row["decoded"].get<std::string>()) << row["ids"];
  }
}
INSTANTIATE_TEST_SUITE_P(Each, Goldens,
                         ::testing::Values("qwen", "llama3", "odd_added", "llama2", "metaspace",
                                           "unknown"),
                         [](const auto& row) { return std::string(row.param); });

TEST(Tokenizer, RefusesTextWithAByteThatHasNoToken) {
  Json json = SmallTokenizer();
  json["model"]["vocab"].erase("A");
  json["model"]["vocab"]["something else"] = 'A';
  const Tokenizer tokenizer = Make(json);
  EXPECT_THAT(Encode(tokenizer, "B"), ElementsAre('B'));
  const Result<Ids> ids = tokenizer.Encode("BA", false);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code(), Errc::kUnsupported);
  EXPECT_THAT(ids.error().message(), HasSubstr("no token 'A' for the byte 0x41 of 'BA'"));
}

TEST(Tokenizer, MergesByRankThenFromTheLeft) {
  const Tokenizer tokenizer = Make(SmallTokenizer());
  EXPECT_THAT(Encode(tokenizer, "hello"), ElementsAre(259));
  EXPECT_THAT(Encode(tokenizer, "lllo"), ElementsAre(257, 'l', 'o'));  // the left "ll" first
  EXPECT_THAT(Encode(tokenizer, "hello<|end|>he"), ElementsAre(259, 260, 256));
  EXPECT_THAT(Encode(tokenizer, ""), ElementsAre());
}

TEST(Tokenizer, DecodesWhatItEncodes) {
  const Tokenizer tokenizer = Make(SmallTokenizer());
  const std::string text = "hello \xf0\x9f\x91\x8d<t> \t\n";
  Ids ids = Encode(tokenizer, text);
  EXPECT_EQ(tokenizer.Decode(ids, false), text);
  ids.push_back(260);
  EXPECT_EQ(tokenizer.Decode(ids, true), text) << "only special tokens are left out, not <t>";
  EXPECT_EQ(tokenizer.Decode(ids, false), text + "<|end|>");
}

TEST(Tokenizer, DecodesBrokenUtf8AsReplacementCharacters) {
  const Tokenizer tokenizer = Make(SmallTokenizer());
  EXPECT_EQ(tokenizer.Decode(Ids{'a', 0xf0, 0x9f, 0x91, 'b'}, false),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(tokenizer.Decode(Ids{0xff, 0xc0, 0x80}, false), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(tokenizer.Decode(Ids{0xed, 0xa0, 0x80}, false), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")
      << "a surrogate";
  EXPECT_EQ(tokenizer.Decode(Ids{'a', -1, 262, 1 << 30, 'b'}, false), "ab") << "no such ids";
}

TEST(Tokenizer, TellsIdsAndTokens) {
  const Tokenizer tokenizer = Make(SmallTokenizer());
  EXPECT_EQ(tokenizer.TokenId("hello"), 259);
  EXPECT_EQ(tokenizer.TokenId("<|end|>"), 260);
  EXPECT_EQ(tokenizer.TokenId("none"), std::nullopt);
  EXPECT_EQ(tokenizer.Token(261), "<t>");
  EXPECT_EQ(tokenizer.Token(' '), "\u0120");
  EXPECT_EQ(tokenizer.Token(262), std::nullopt);
  EXPECT_TRUE(tokenizer.IsSpecial(260));
  EXPECT_FALSE(tokenizer.IsSpecial(261));
  EXPECT_EQ(tokenizer.id_limit(), 262);
}

TEST(Tokenizer, PutsTheTemplateAroundAText) {
  Json json = SmallTokenizer();
  json["post_processor"] = Json::parse(R"({"type": "Sequence", "processors": [
      {"type": "ByteLevel"},
      {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "b"}}, {"Sequence": {"id": "A"}},
                  {"SpecialToken": {"id": "e"}}],
       "special_tokens": {"b": {"ids": [260]}, "e": {"ids": [261, 260]}}}]})");
  const Tokenizer tokenizer = Make(json);
  EXPECT_THAT(Encode(tokenizer, "he", true), ElementsAre(260, 256, 261, 260));
  EXPECT_THAT(Encode(tokenizer, "he", false), ElementsAre(256));
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const Tokenizer tokenizer = Make(SmallTokenizer());
  const Result<Ids> ids = tokenizer.Encode("ab\xff", false);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code(), Errc::kCorrupt);
  EXPECT_EQ(ids.error().offset(), 2u);
}

TEST(Tokenizer, EncodesTheSameOnManyThreads) {
  const Result<Tokenizer> tokenizer = Tokenizer::Open(kData + "qwen/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i)
    texts.push_back("word" + std::to_string(i * 7919) +
                    " \u8bc1\u660e x=" + std::to_string(i % 10));
  std::vector<std::vector<Ids>> found(4);
  std::vector<std::thread> threads;
  for (std::vector<Ids>& mine : found)
    threads.emplace_back([&] {
      for (const std::string& text : texts) mine.push_back(Encode(*tokenizer, text));
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<Ids>& mine : found) EXPECT_EQ(mine, found[0]);
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(tokenizer->Decode(found[0][i], false), texts[i]);
}

TEST(Tokenizer, AWordOfAMegabyteTakesNoTime) {
  const Tokenizer tokenizer = Make(SmallTokenizer());
  std::string word;
  while (word.size() < 1'000'000) word += "hellohellol";
  EXPECT_EQ(tokenizer.Decode(Encode(tokenizer, word), false), word);
}

struct Fault {
  const char* name;
  const char* patch;  // RFC 6902, on SmallTokenizer
  Errc code;
  const char* member;
  const char* message;
};

class Faults : public ::testing::TestWithParam<Fault> {};

TEST_P(Faults, AreNamed) {
  const Fault& fault = GetParam();
  const Json json = SmallTokenizer().patch(Json::parse(fault.patch));
  const Result<Tokenizer> tokenizer = Tokenizer::Parse(json.dump());
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code(), fault.code) << tokenizer.error().ToString();
  EXPECT_EQ(tokenizer.error().member(), fault.member);
  EXPECT_THAT(tokenizer.error().message(), HasSubstr(fault.message));
}

constexpr Errc kUnsupported = Errc::kUnsupported;
constexpr Errc kCorrupt = Errc::kCorrupt;
const Fault kFaults[] = {
    {"Normalizer", R"([{"op":"replace","path":"/normalizer","value":{"type":"Lowercase"}}])",
     kUnsupported, "normalizer", "type 'Lowercase' is not known, expected null, NFC"},
    {"Model", R"([{"op":"replace","path":"/model/type","value":"Unigram"}])", kUnsupported, "model",
     "type 'Unigram' is not known, expected BPE"},
    {"Dropout", R"([{"op":"add","path":"/model/dropout","value":0.1}])", kUnsupported, "model",
     "dropout 0.1, expected null"},
    {"Suffix", R"([{"op":"add","path":"/model/end_of_word_suffix","value":"</w>"}])", kUnsupported,
     "model", "end_of_word_suffix \"</w>\""},
    {"DoubleId", R"([{"op":"add","path":"/model/vocab/zz","value":65}])", kCorrupt, "model.vocab",
     "id 65 belongs to 'A' and to 'zz'"},
    {"NegativeId", R"([{"op":"add","path":"/model/vocab/zz","value":-1}])", kCorrupt, "model.vocab",
     "token 'zz' has id -1"},
    {"HugeId", R"([{"op":"add","path":"/model/vocab/zz","value":4294967295}])", kCorrupt,
     "model.vocab", "token 'zz' has id 4294967295, expected 0 to 6184"},
    {"MergeUnknown", R"([{"op":"add","path":"/model/merges/4","value":["h","x"]}])", kCorrupt,
     "model.merges", "merge 4 of 'h' and 'x': 'hx' is not in the vocabulary"},
    {"MergeOfThree", R"([{"op":"add","path":"/model/merges/4","value":"a b c"}])", kCorrupt,
     "model.merges", "merge 4 is \"a b c\", expected two tokens"},
    {"PreTokenizer", R"([{"op":"replace","path":"/pre_tokenizer","value":{"type":"Punctuation"}}])",
     kUnsupported, "pre_tokenizer", "type 'Punctuation' is not known"},
    {"Scheme", R"([{"op":"replace","path":"/pre_tokenizer","value":
        {"type":"Metaspace","replacement":"_","prepend_scheme":"often"}}])",
     kUnsupported, "pre_tokenizer", "prepend_scheme 'often' is not known"},
    {"SchemeAgainstPrefix", R"([{"op":"replace","path":"/pre_tokenizer","value":
        {"type":"Metaspace","replacement":"_","add_prefix_space":false}}])",
     kUnsupported, "pre_tokenizer", "add_prefix_space and prepend_scheme contradict each other"},
    {"DigitsAfterByteLevel", R"([{"op":"add","path":"/pre_tokenizer/pretokenizers/-","value":
        {"type":"Digits","individual_digits":true}}])",
     kUnsupported, "pre_tokenizer", "Digits after ByteLevel"},
    {"ReplaceByRegex", R"([{"op":"replace","path":"/normalizer","value":
        {"type":"Replace","pattern":{"Regex":"a"},"content":"b"}}])",
     kUnsupported, "normalizer", "Replace by a pattern that is not a String"},
    {"Unknown", R"([{"op":"replace","path":"/pre_tokenizer","value":null},
        {"op":"add","path":"/model/unk_token","value":"<unk>"}])",
     kCorrupt, "model.unk_token", "'<unk>' is not in the vocabulary"},
    {"AddedGap", R"([{"op":"replace","path":"/added_tokens/1/id","value":270}])", kUnsupported,
     "added_tokens", "'<t>' has id 270, and the library `tokenizers` gives it 261"},
    {"AddedStrips", R"([{"op":"replace","path":"/added_tokens/0/rstrip","value":true},
        {"op":"replace","path":"/added_tokens/1/lstrip","value":true},
        {"op":"replace","path":"/added_tokens/1/content","value":"  "}])",
     kUnsupported, "added_tokens", "'<|end|>' takes the white space after it (rstrip), and '  '"},
    {"FirstAfterPrepend", R"([{"op":"replace","path":"/pre_tokenizer","value":
        {"type":"Metaspace","replacement":"_","prepend_scheme":"first"}},
        {"op":"replace","path":"/normalizer","value":{"type":"Prepend","prepend":"x"}}])",
     kUnsupported, "pre_tokenizer", "'first' after a normalizer that moves the beginning"},
    {"FirstAfterRemoved", R"([{"op":"replace","path":"/pre_tokenizer","value":
        {"type":"Sequence","pretokenizers":[
          {"type":"Split","pattern":{"String":" "},"behavior":"Removed","invert":false},
          {"type":"Metaspace","replacement":"_","prepend_scheme":"first"}]}}])",
     kUnsupported, "pre_tokenizer", "'first' after a Split that removes text"},
    {"FuseFirst", R"([{"op":"replace","path":"/decoder","value":{"type":"Sequence","decoders":
        [{"type":"Fuse"},{"type":"ByteLevel"}]}}])",
     kUnsupported, "decoder", "Fuse before ByteLevel"},
    {"DecoderMix", R"([{"op":"replace","path":"/decoder","value":{"type":"Sequence","decoders":
        [{"type":"ByteLevel"},{"type":"ByteFallback"}]}}])",
     kUnsupported, "decoder", "ByteLevel together with other steps"},
    {"Behavior",
     R"([{"op":"replace","path":"/pre_tokenizer/pretokenizers/0/behavior","value":"Odd"}])",
     kUnsupported, "pre_tokenizer", "behavior 'Odd'"},
    {"Pattern",
     R"([{"op":"replace","path":"/pre_tokenizer/pretokenizers/0/pattern","value":{"Regex":"^a"}}])",
     kUnsupported, "pre_tokenizer", "a line anchor at character 1 of '^a'"},
    {"Decoder", R"([{"op":"replace","path":"/decoder","value":{"type":"WordPiece"}}])",
     kUnsupported, "decoder", "type 'WordPiece' is not known"},
    {"NoDecoder", R"([{"op":"remove","path":"/decoder"}])", kUnsupported, "decoder", "found none"},
    {"PostProcessor", R"([{"op":"replace","path":"/post_processor","value":{"type":"Bert"}}])",
     kUnsupported, "post_processor", "type 'Bert' is not known"},
    {"AddedIdTaken", R"([{"op":"replace","path":"/added_tokens/0/id","value":65}])", kCorrupt,
     "added_tokens", "'<|end|>' has id 65, which is 'A' in the model"},
    {"AddedTwoIds", R"([{"op":"replace","path":"/added_tokens/0/content","value":"hello"}])",
     kCorrupt, "added_tokens", "'hello' has id 260, and 259 in the vocabulary"},
    {"AddedTwice", R"([{"op":"replace","path":"/added_tokens/1/id","value":260}])", kCorrupt,
     "added_tokens", "'<t>' with id 260"},
    {"AddedEmpty", R"([{"op":"replace","path":"/added_tokens/1/content","value":""}])", kCorrupt,
     "added_tokens[1]", "content of 0 bytes"},
    {"AddedWithoutFlag", R"([{"op":"remove","path":"/added_tokens/1/lstrip"}])", kCorrupt, "lstrip",
     "the key is missing"},
};
INSTANTIATE_TEST_SUITE_P(Each, Faults, ::testing::ValuesIn(kFaults),
                         [](const auto& row) { return std::string(row.param.name); });

// Every single damage is an error or leaves a tokenizer that works; none ends the process.
TEST(Tokenizer, SurvivesDamage) {
  const Json whole = SmallTokenizer();
  const std::string text = whole.dump();
  for (size_t cut = 0; cut < text.size(); cut += 97)
    EXPECT_FALSE(Tokenizer::Parse(std::string_view(text).substr(0, cut)).ok()) << cut;
  const Json flat = whole.flatten();
  const Json values[] = {nullptr, -1, 1e300, "x", Json::array({1}), Json::object(), true};
  for (const auto& [path, old] : flat.items()) {
    if (path.starts_with("/model/vocab/") && path.size() < 16) continue;
    for (const Json& value : values) {
      Json broken = whole;
      broken[Json::json_pointer(path)] = value;
      const Result<Tokenizer> tokenizer = Tokenizer::Parse(broken.dump());
      if (!tokenizer.ok()) continue;
      EXPECT_TRUE(tokenizer->Encode("hello <t> 12", true).ok()) << path;
    }
  }
}

}  // namespace
}  // namespace nxdkit::trainer
