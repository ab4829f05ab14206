#include "lib/yaml/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using testing_util::ExpectError;

Value Parse(const std::string& text) {
  Result<Value> value = ParseYaml(text);
  if (value.ok()) return std::move(value).value();
  ADD_FAILURE() << value.error().ToString();
  return {};
}

TEST(Yaml, ResolvesScalars) {
  const struct {
    const char* text;
    ValueKind kind;
    const char* back;
  } rows[] = {{"1", ValueKind::kInt, "1"},
              {"-7", ValueKind::kInt, "-7"},
              {"+7", ValueKind::kInt, "7"},
              {"1e-6", ValueKind::kDouble, "1.0e-06"},
              {"1.0e-2", ValueKind::kDouble, "0.01"},
              {".5", ValueKind::kDouble, "0.5"},
              {"5.", ValueKind::kDouble, "5.0"},
              {"9223372036854775808", ValueKind::kDouble, "9.223372036854776e+18"},
              {"010", ValueKind::kString, "\"010\""},
              {"0x10", ValueKind::kString, "\"0x10\""},
              {".inf", ValueKind::kString, "\".inf\""},
              {"nan", ValueKind::kString, "\"nan\""},
              {"1e999", ValueKind::kString, "\"1e999\""},
              {"1_000", ValueKind::kString, "\"1_000\""},
              {"--1", ValueKind::kString, "\"--1\""},
              {"+-1", ValueKind::kString, "\"+-1\""},
              {"'1'", ValueKind::kString, "\"1\""},
              {"\"true\"", ValueKind::kString, "\"true\""},
              {"True", ValueKind::kBool, "true"},
              {"off", ValueKind::kBool, "false"},
              {"~", ValueKind::kNull, "null"},
              {"null", ValueKind::kNull, "null"},
              {"''", ValueKind::kString, "\"\""},
              {"[1, a, {b: 2.5}]", ValueKind::kList, "[1, \"a\", {\"b\": 2.5}]"},
              {"{}", ValueKind::kMap, "{}"},
              {"{\"a\": [true, null]}", ValueKind::kMap, "{\"a\": [true, null]}"}};
  for (const auto& row : rows) {
    const Value value = Parse(row.text);
    EXPECT_EQ(value.kind, row.kind) << row.text;
    EXPECT_EQ(ValueText(value), row.back) << row.text;
    EXPECT_EQ(ValueText(Parse(ValueText(value))), row.back) << "written and read again";
  }
}

TEST(Yaml, KnowsThePlaceOfEverything) {
  const Value root = Parse("a:\n  b: 1\n  c: [2, 3]\n");
  const Value* a = root.Find("a");
  ASSERT_NE(a, nullptr);
  ASSERT_EQ(a->entries.size(), 2u);
  EXPECT_EQ(a->entries[0].place.line, 2);
  EXPECT_EQ(a->entries[0].place.column, 3);
  EXPECT_EQ(a->entries[1].value.items[1].place.line, 3);
  EXPECT_EQ(a->entries[1].value.items[1].place.column, 10);
}

TEST(Yaml, AliasesAreCopies) {
  const Value root = Parse("a: &x {k: 1}\nb: *x\n");
  EXPECT_EQ(ValueText(root), "{\"a\": {\"k\": 1}, \"b\": {\"k\": 1}}");
}

TEST(Yaml, NothingIsNull) {
  EXPECT_EQ(Parse("").kind, ValueKind::kNull);
  EXPECT_EQ(Parse("# only a comment\n").kind, ValueKind::kNull);
}

TEST(Yaml, RefusesWhatIsNoConfig) {
  const struct {
    const char* text;
    Errc code;
    const char* part;
  } rows[] = {
      {"a: 1\nb: 2\na: 3\n", Errc::kCorrupt, "line 3 column 1: key a is here and on line 1"},
      {"a: {b: 1, b: 2}", Errc::kCorrupt, "line 1 column 11: key b is here"},
      {"a: [1, 2\n", Errc::kCorrupt, "line "},
      {"a: 1\n b: 2\n", Errc::kCorrupt, "line 2"},
      {"a: \"\\q\"\n", Errc::kCorrupt, "line 1"},
      {"a: 1\n---\nb: 2\n", Errc::kCorrupt, "a second document"},
      {"? [1, 2]\n: 3\n", Errc::kCorrupt, "a list cannot be a key"},
      {"a: !!python/object:os.system ls\n", Errc::kUnsupported, "tags are not supported"},
      {"a: &x {b: 1}\nc:\n  <<: *x\n", Errc::kUnsupported, "line 3 column 3: merge keys"},
      {"a: ${b.c}\n", Errc::kUnsupported, "line 1 column 4: interpolations"},
      {"a: *nobody\n", Errc::kCorrupt, "line 1"},
      {"\t a: 1\n", Errc::kCorrupt, "line 1"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.text);
    ExpectError(ParseYaml(row.text), row.code, row.part);
  }
}

TEST(Yaml, BoundsDepth) {
  ExpectError(ParseYaml(std::string(40, '[') + std::string(40, ']')), Errc::kLimit,
              "line 1 column 33: lists and maps are nested over the limit of 32");
  EXPECT_TRUE(ParseYaml(std::string(32, '[') + std::string(32, ']')).ok());
  // Deeper than the library itself follows.
  EXPECT_FALSE(ParseYaml(std::string(100000, '[')).ok());
  EXPECT_FALSE(ParseYaml(std::string(100000, '{')).ok());
}

TEST(Yaml, BoundsWhatAliasesStandFor) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string name = "a" + std::to_string(i);
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += name + ": &" + name + " [" + last;
    for (int k = 0; k < 8; ++k) bomb += ", " + last;
    bomb += "]\n";
  }
  ExpectError(ParseYaml(bomb), Errc::kLimit, "the document has more than 5000 values");
  std::string chain = "a0: &a0 [x]\n";
  for (int i = 1; i < 60; ++i)
    chain += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
             "]\n";
  ExpectError(ParseYaml(chain), Errc::kLimit, "nested over the limit of 32");
}

// Printed configurations are read again, whatever text is in them.
TEST(Yaml, ReadsWhatIsQuoted) {
  for (const char* text : {"\xf0\x9f\x98\x80 and \xf4\x8f\xbf\xbf", "\xed\x9e\xa3", "\\ud83d",
                           "a\"\n\x13", "caf\xc3\xa9"}) {
    const Value value = Parse("key: " + QuotedText(text));
    ASSERT_EQ(value.entries.size(), 1u);
    EXPECT_EQ(value.entries[0].value.text, text);
  }
}

TEST(Yaml, BoundsBytes) {
  ExpectError(ParseYaml(std::string((1 << 20) + 1, ' ')), Errc::kLimit,
              "1048577 bytes are over the limit of 1048576");
}

// Truncations and single changed bytes never do more than fail.
TEST(Yaml, SurvivesDamage) {
  const std::string text = "a: &x {k: [1, \"two\", 3.5e-1]}\nb: *x\nc:\n  - - d\n  - |\n    e\n";
  size_t parsed = 0;
  for (size_t cut = 0; cut <= text.size(); ++cut)
    parsed += ParseYaml(text.substr(0, cut)).ok() ? 1 : 0;
  for (size_t i = 0; i < text.size(); ++i)
    for (const char c : {'\0', '\n', '&', '*', '{', ']', ':', '!', '\xff', '%'}) {
      std::string changed = text;
      changed[i] = c;
      parsed += ParseYaml(changed).ok() ? 1 : 0;
    }
  EXPECT_GT(parsed, 10u);
}

}  // namespace
}  // namespace nxdkit
