#include "lib/yaml/interpolate.h"

#include <gtest/gtest.h>

#include "lib/yaml/yaml.h"

namespace nxdkit {
namespace {

Value Parsed(const std::string& text) {
  const Result<Value> value = ParseYaml(text, {.interpolations = true});
  EXPECT_TRUE(value.ok()) << value.error().ToString();
  return value.ok() ? *value : Value();
}

std::string Text(const std::string& yaml, std::vector<Unresolved>* left = nullptr) {
  return ValueText(Interpolate(Parsed(yaml), left));
}

TEST(Interpolate, AKeyOfTheFileIsItsValue) {
  EXPECT_EQ(Text("a: {b: 3}\nc: ${a.b}\n"), R"({"a": {"b": 3}, "c": 3})");
  EXPECT_EQ(Text("a: {b: true}\nc: \"${a}\"\n"), R"({"a": {"b": true}, "c": {"b": true}})");
  EXPECT_EQ(Text("a: [1, x]\nb: ${a.1}${a[0]}\n"), R"({"a": [1, "x"], "b": "x1"})");
}

TEST(Interpolate, DotsBeginWhereItStands) {
  EXPECT_EQ(Text("m: {len: 8, max: '${.len}', n: {k: '${..len}'}}\n"),
            R"({"m": {"len": 8, "max": 8, "n": {"k": 8}}})");
}

TEST(Interpolate, WithinATextTheScalarsTextStands) {
  EXPECT_EQ(Text("n: run\ns: 2e-5\np: out/${n}-${s}-${t}\nt: yes\n"),
            R"({"n": "run", "s": 2.0e-05, "p": "out/run-2e-5-True", "t": true})");
}

TEST(Interpolate, OneMayLeadToAnother) {
  std::vector<Unresolved> left;
  EXPECT_EQ(Text("a: ${b}\nb: ${c.d}\nc: {d: 5}\n", &left), R"({"a": 5, "b": 5, "c": {"d": 5}})");
  EXPECT_TRUE(left.empty());
}

TEST(Interpolate, TheValueIsWhereItIsUsed) {
  const Value value = Interpolate(Parsed("a: 3\nb:\n  c: ${a}\n"));
  EXPECT_EQ(PlaceText(value.Find("b")->Find("c")->place), "line 3 column 6");
}

struct LeftRow {
  const char* yaml;
  const char* key;
  const char* reason;
};
TEST(Interpolate, WithinATextNullIsAFault) {
  std::vector<Unresolved> left;
  EXPECT_EQ(Text("a: null\nb: ${a}\nc: x/${a}\n", &left),
            R"({"a": null, "b": null, "c": "x/${a}"})");
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].reason, "a is not set");
}

class LeftAsItIs : public ::testing::TestWithParam<LeftRow> {};
TEST_P(LeftAsItIs, WithItsReason) {
  std::vector<Unresolved> left;
  const Value value = Interpolate(Parsed(GetParam().yaml), &left);
  ASSERT_FALSE(left.empty());
  EXPECT_EQ(left.front().key, GetParam().key);
  EXPECT_NE(left.front().reason.find(GetParam().reason), std::string::npos) << left.front().reason;
  EXPECT_NE(left.front().text.find("${"), std::string::npos);
  EXPECT_GT(left.front().place.line, 0);
}
INSTANTIATE_TEST_SUITE_P(
    All, LeftAsItIs,
    ::testing::Values(LeftRow{"a: ${b.c}\nb: {d: 1}\n", "a", "there is no b.c"},
                      LeftRow{"a: ${a}\n", "a", "leads back to itself"},
                      LeftRow{"a: ${b}\nb: ${a}\n", "a", "leads back to itself"},
                      LeftRow{"a: {b: '${c}'}\nc: {d: '${a}'}\n", "a.b", "leads back to itself"},
                      LeftRow{"a: {b: '${oc.env:HOME}'}\n", "a.b", "oc.env:HOME is resolved by"},
                      LeftRow{"a: ${multiply:${b}, 2}\nb: 1\n", "a", "stands inside another"},
                      LeftRow{"a: x${b}\nb: [1]\n", "a", "b is not a scalar"},
                      LeftRow{"a: x${b\nb: 1\n", "a", "it has no }"},
                      LeftRow{"a: ${...b}\nb: 1\n", "a", "leads out of the file"}));

// Nine lists, each of nine references to the one before.
TEST(Interpolate, WhatWouldGrowWithoutEndStays) {
  std::string yaml = "a0: x\n";
  for (int i = 1; i < 10; ++i) {
    yaml += "a" + std::to_string(i) + ": [";
    for (int k = 0; k < 9; ++k) yaml += "'${a" + std::to_string(i - 1) + "}',";
    yaml += "]\n";
  }
  std::vector<Unresolved> left;
  const Value value = Interpolate(Parsed(yaml), &left);
  ASSERT_FALSE(left.empty());
  EXPECT_LT(ValueText(value).size(), 2'000'000u);
}

}  // namespace
}  // namespace nxdkit
