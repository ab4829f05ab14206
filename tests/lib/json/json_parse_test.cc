#include <cmath>

#include "lib/json/json.h"
#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

using testing_util::ExpectError;
using testing_util::ExpectErrorAt;

Result<Json> Parse(std::string_view text) { return ParseJson(text); }
Result<Json> ParseNan(std::string_view text) { return ParseJson(text, {.allow_nan = true}); }

TEST(ParseJson, AllKindsInOrder) {
  const auto json = Parse(R"( {"z": [1, -2, 2.5, 18446744073709551615], "a": {"t": true, "n": null},
    "s": "\u00e9\ud83d\ude00\n\/"} )");
  ASSERT_TRUE(json.ok()) << json.error().ToString();
  EXPECT_EQ(json->dump(),
            "{\"z\":[1,-2,2.5,18446744073709551615],\"a\":{\"t\":true,\"n\":null},"
            "\"s\":\"\xc3\xa9\xf0\x9f\x98\x80\\n/\"}");
  EXPECT_EQ(Parse("3")->get<int>(), 3);
  EXPECT_EQ(Parse("\"x\"")->get<std::string>(), "x");
}

struct BadRow {
  std::string text;
  uint64_t offset;
  const char* part;
};

TEST(ParseJson, RefusesAtAnOffset) {
  const BadRow rows[] = {
      {"", 0, "line 1 column 1: syntax error while parsing value - unexpected end of input"},
      {"  ", 2, "unexpected end of input"},
      {"{\"a\":1,}", 7, "line 1 column 8: syntax error while parsing object key"},
      {"{\n \"a\": nul}", 11,
       "line 2 column 10: syntax error while parsing value - invalid literal"},
      {"[1,2", 4, "at the end of the text"},
      {"[1] 2", 4, "expected end of input, at '2'"},
      {"[1,]", 3, "unexpected ']'"},
      {"{'a':1}", 1, "object key"},
      {"{a:1}", 1, "object key"},
      {"{\"a\" 1}", 5, "object separator"},
      {"[01]", 2, "unexpected number literal"},
      {"[1.]", 3, "expected digit after '.'"},
      {"[+1]", 1, "invalid literal"},
      {"[.5]", 1, "invalid literal"},
      {"[1e]", 3, "expected '+', '-', or digit after exponent"},
      {"[-]", 2, "expected digit after '-'"},
      {"[\"a\nb\"]", 3, "control character"},
      {"[\"\\x41\"]", 3, "forbidden character after backslash"},
      {"[\"\\ud800\"]", 8, "surrogate"},
      {"[\"\\udc00\"]", 7, "surrogate"},
      {"[\"abc", 5, "missing closing quote"},
      {"[\"\\", 3, "line 1 column 4"},
      {"// c\n1", 0, "invalid literal"},
      {"[1e999]", 5, "number overflow"},
      {"\xef\xbb\xbf{}", 0, "byte order mark"},
      {"[\"\xff\"]", 2, "not UTF-8"},
      {"[\"\xed\xa0\x80\"]", 2, "not UTF-8"},
      {std::string("{}\0x", 4), 2, "NUL byte"},
      {std::string("[1,\0]", 5), 3, "NUL byte"},
      {"[NaN]", 1, "invalid literal, at 'NaN]'"},
      {"[Infinity]", 1, "invalid literal"},
      {"[-Infinity]", 2, "expected digit after '-'"},
      {"[tru\x1b[2J]", 4, "at '\\x1b[2J]'"},  // control characters are escaped in the message
  };
  for (const BadRow& row : rows) {
    SCOPED_TRACE(row.text);
    ExpectErrorAt(Parse(row.text), Errc::kCorrupt, row.part, "", row.offset);
  }
}

TEST(ParseJson, Depth) {
  const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_TRUE(Parse(nested(128)).ok());
  ExpectErrorAt(Parse(nested(129)), Errc::kCorrupt, "limit of 128 levels", "", 128);
  // Neither the parser nor the destructor of a tree may recurse that deep.
  ExpectErrorAt(Parse(std::string(1'000'000, '[')), Errc::kCorrupt, "limit of 128", "", 128);
  ExpectError(Parse("[\"" + std::string(200, '[') + "\", \"\\\"" + std::string(200, '{')),
              Errc::kCorrupt, "missing closing quote");  // brackets in strings do not count
  std::string many = "[";
  for (int i = 0; i < 1000; ++i) many += "[{}],";
  EXPECT_TRUE(Parse(many + "[]]").ok());  // side by side is not deep
}

TEST(ParseJson, DuplicateKeys) {
  const std::string_view text = "{\"a\": 1, \"b\": {\"a\": 2},\n \"a\": 3}";
  ExpectErrorAt(Parse(text), Errc::kCorrupt, "line 2 column 4: key 'a' is there twice", "", 27);
  const auto json = ParseJson(text, {.allow_duplicate_keys = true});
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->dump(), "{\"a\":3,\"b\":{\"a\":2}}");  // as in Python
  const auto nested =
      ParseJson("{\"a\":{\"x\":1},\"a\":{\"y\":[]}}", {.allow_duplicate_keys = true});
  ASSERT_TRUE(nested.ok());
  EXPECT_EQ(nested->dump(), "{\"a\":{\"y\":[]}}");
  ExpectError(Parse("{\"k\\n\":1,\"k\\u000a\":1}"), Errc::kCorrupt, "key 'k\\x0a' is there twice");
}

TEST(ParseJson, PythonsNanWords) {
  const auto json = ParseNan("[NaN, Infinity,-Infinity, 0e0, 0e000000, -0e000000, \"NaN\", 7]");
  ASSERT_TRUE(json.ok()) << json.error().ToString();
  EXPECT_TRUE(std::isnan((*json)[0].get<double>()));
  EXPECT_EQ((*json)[1].get<double>(), HUGE_VAL);
  EXPECT_EQ((*json)[2].get<double>(), -HUGE_VAL);
  for (const size_t i : {3, 4, 5}) EXPECT_EQ((*json)[i].get<double>(), 0) << i;
  EXPECT_EQ((*json)[6].get<std::string>(), "NaN");
  EXPECT_EQ((*json)[7].get<int>(), 7);
  EXPECT_TRUE(std::isnan(ParseNan("NaN")->get<double>()));
  EXPECT_EQ(ParseNan("{\"a\":-Infinity}")->at("a").get<double>(), -HUGE_VAL);
  EXPECT_EQ(ParseNan("0e0")->get<double>(), 0);
}

TEST(ParseJson, OnlyExactlyThoseWords) {
  for (const std::string_view text : {"[nan]", "[NaN1]", "[1NaN]", "[NaNNaN]", "[+Infinity]",
                                      "[--Infinity]", "[Inf]", "[-NaN]", "[InfinityNaN]", "[.NaN]"})
    EXPECT_FALSE(ParseNan(text).ok()) << text;
  ExpectErrorAt(ParseNan("[NaN NaN]"), Errc::kCorrupt, "at 'N]'", "", 7);  // shown as written
  ExpectError(ParseNan("{NaN: 1}"), Errc::kCorrupt, "object key");
}

// 200,000 keys: quadratic time would show.
TEST(ParseJson, BigObjectsAreLinear) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i)
    text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"model-00001.safetensors\"";
  const auto json = Parse(text + "}");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->size(), 200'000u);
}

TEST(ReadJsonFile, NamesTheFile) {
  const testing_util::TempFolder folder;
  testing_util::WriteText(folder / "c.json", "{\"a\": [1, 2}");
  ExpectErrorAt(ReadJsonFile(folder / "c.json", 100), Errc::kCorrupt, "line 1 column 12",
                folder / "c.json", 11);
  ExpectErrorAt(ReadJsonFile(folder / "c.json", 5), Errc::kCorrupt,
                "12 bytes is over the limit of 5", folder / "c.json", std::nullopt);
  ExpectErrorAt(ReadJsonFile(folder / "d.json", 5), Errc::kNotFound, "open", folder / "d.json",
                std::nullopt);
}

TEST(JsonGetters, FoundAgainstExpected) {
  const Json json = *Parse(R"({"s": "x", "i": -7, "u": 9223372036854775808, "d": 0.5, "b": true,
                               "n": null, "o": {}})");
  EXPECT_EQ(*JsonString(json, "s"), "x");
  EXPECT_EQ(*JsonInt(json, "i"), -7);
  EXPECT_EQ(*JsonDouble(json, "d"), 0.5);
  EXPECT_EQ(*JsonDouble(json, "i"), -7);
  EXPECT_EQ(*JsonBool(json, "b"), true);
  const auto expect = [](const auto& result, const char* part, const char* member) {
    const std::optional<Error> error = ExpectError(result, Errc::kCorrupt, part);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->member(), member);
  };
  expect(JsonString(json, "i"), "found an integer, expected a string", "i");
  expect(JsonInt(json, "s"), "found a string, expected an integer", "s");
  expect(JsonInt(json, "d"), "found a floating point number, expected an integer", "d");
  expect(JsonInt(json, "b"), "found true, expected an integer", "b");
  expect(JsonInt(json, "u"), "9223372036854775808 is over the limit of 9223372036854775807", "u");
  expect(JsonBool(json, "n"), "found null, expected true or false", "n");
  expect(JsonDouble(json, "o"), "found an object, expected a number", "o");
  expect(JsonString(json, "zz"), "the key is missing, expected a string", "zz");
  expect(JsonString(*Parse("[]"), "k"), "found an array around this key", "k");
}

TEST(JsonGetters, FindTreatsNullAsMissing) {
  const Json json = *Parse(R"({"n": null, "i": 1})");
  EXPECT_EQ(JsonFind(json, "n"), nullptr);
  EXPECT_EQ(JsonFind(json, "x"), nullptr);
  EXPECT_EQ(JsonFind(*JsonFind(json, "i"), "x"), nullptr);
  ASSERT_NE(JsonFind(json, "i"), nullptr);
  EXPECT_EQ(JsonFind(json, "i")->get<int>(), 1);
}

}  // namespace
}  // namespace nxdkit
