// The 155 rows of the probe table. Header-only, so that tests and the interop probe share them.
// Groups: p prefix, t tensor entry, d duplicates, j JSON, m metadata, o offsets, s shape,
// b sub-byte and bool, a the published attacks.
#pragma once

#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/formats/safetensors/probe_table.h"

namespace nxdkit::safetensors::testing {
namespace probe_rows {

using std::string_literals::operator""s;

inline constexpr char kMax[] = "18446744073709551615";
inline const std::string kGood = Entry("I32", "2,2", "0,16");

inline std::string Metadata(std::string_view value) {
  return "{\"__metadata__\":" + std::string(value) + ",\"t\":" + kGood + "}";
}
inline std::string Two(std::string_view first, std::string_view second) {
  return "{\"a\":" + std::string(first) + ",\"b\":" + std::string(second) + "}";
}
inline std::string Twice(std::string_view first, std::string_view second,
                         std::string_view second_name = "t") {
  return "{\"t\":" + std::string(first) + ",\"" + std::string(second_name) +
         "\":" + std::string(second) + "}";
}
inline std::string WithField(std::string_view field) {
  std::string entry = kGood;
  entry.insert(1, std::string(field) + ",");
  return One(entry);
}
inline std::string Nested(int depth) {  // arrays in an unknown field
  const auto n = static_cast<size_t>(depth);
  return WithField("\"x\":" + std::string(n, '[') + std::string(n, ']'));
}
inline std::string Repeat(std::string_view item, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + std::string(item);
  return text;
}
inline std::string Chain(int count, uint64_t bytes, uint64_t last) {  // `count` U8 tensors and one
  std::string header = "{";
  uint64_t end = 0;
  for (int i = 0; i <= count; ++i) {
    const uint64_t size = i < count ? bytes : last;
    if (size == 0) break;
    header +=
        (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":" +
        Entry("U8", std::to_string(size), std::to_string(end) + "," + std::to_string(end + size));
    end += size;
  }
  return header + "}";
}

inline void AddPrefix(std::vector<Probe>& to) {
  const std::string good = One(kGood);
  to.push_back({"p01", "", "HeaderTooSmall"});
  to.push_back({"p02", std::string(7, '\0'), "HeaderTooSmall"});
  to.push_back({"p03", LengthBytes(60), "InvalidHeaderLength"});
  to.push_back({"p04", LengthBytes(0), "InvalidHeaderDeserialization"});
  to.push_back({"p05", LengthBytes(0) + "abcd", "InvalidHeaderDeserialization"});
  to.push_back({"p06", FileOf("{"), "InvalidHeaderDeserialization"});
  to.push_back({"p07", FileOf("\xff"), "InvalidHeader"});
  to.push_back({"p08", LengthBytes(100'000'001) + good, "HeaderTooLarge"});
  to.push_back({"p09", LengthBytes(100'000'000) + good, "InvalidHeaderLength"});
  to.push_back({"p10", LengthBytes(uint64_t{1} << 63) + good, "HeaderTooLarge"});
  to.push_back({"p11", LengthBytes(~uint64_t{0}) + good, "HeaderTooLarge"});
  to.push_back({"p12", LengthBytes(~uint64_t{0} - 7) + good, "HeaderTooLarge"});
  to.push_back({"p13", LengthBytes(1000) + good, "InvalidHeaderLength"});
  to.push_back({"p14", LengthBytes(good.size() - 1) + good + std::string(16, 'x'),
                "InvalidHeaderDeserialization"});
  to.push_back({"p15", "\0\0\0\0\0\0\0\x40"s + good, "HeaderTooLarge"});
}

inline void AddEntries(std::vector<Probe>& to) {
  const std::string_view bad = "InvalidHeaderDeserialization";
  to.push_back({"t01", FileOf(One(kGood), 16)});
  to.push_back({"t02", FileOf(One("I32", "", "0,4"), 4)});
  to.push_back({"t03", FileOf(One("F32", "2,0", "0,0"))});
  to.push_back({"t04", FileOf(One("F32", "2,0", "0,4"), 4), "TensorInvalidInfo"});
  to.push_back({"t05", FileOf(WithField("\"x\":{\"y\":[1,null,true,1.5,-2,\"z\"]}"), 16)});
  to.push_back({"t06", FileOf(One("{\"shape\":[2,2],\"data_offsets\":[0,16]}"), 16), bad});
  to.push_back({"t07", FileOf(One("{\"dtype\":\"I32\",\"data_offsets\":[0,16]}"), 16), bad});
  to.push_back({"t08", FileOf(One("{\"dtype\":\"I32\",\"shape\":[2,2]}"), 16), bad});
  to.push_back({"t09", FileOf(One("null"), 16), bad});
  to.push_back({"t10", FileOf(One("[\"I32\",[2,2],[0,16]]"), 16), kNone, Ours::kStrict});
  to.push_back({"t11", FileOf(One("[\"I32\",[2,2],[0,16],1]"), 16), bad});
  to.push_back({"t12", FileOf(One("\"I32\""), 16), bad});
  to.push_back({"t13", FileOf(One("{}"), 16), bad});
  to.push_back({"t14", FileOf(One("i32", "2,2", "0,16"), 16), bad});
  to.push_back({"t15", FileOf(One("F128", "1", "0,16"), 16), bad});
  to.push_back({"t16", FileOf(One("float32", "2,2", "0,16"), 16), bad});
  const auto dtype = [](std::string_view value) {
    return FileOf(
        One("{\"dtype\":" + std::string(value) + ",\"shape\":[2,2],\"data_offsets\":[0,16]}"), 16);
  };
  to.push_back({"t17", dtype("15"), bad});
  to.push_back({"t18", dtype("{\"I32\":null}"), kNone, Ours::kStrict});
  to.push_back({"t19", dtype("null"), bad});
  to.push_back({"t20", dtype("[\"I32\"]"), bad});
  to.push_back({"t21", FileOf(One("F8_E4M3FN", "16", "0,16"), 16), bad});
  to.push_back({"t22", FileOf(One("C128", "1", "0,16"), 16), bad});
  to.push_back({"t23", dtype("0"), bad});
  to.push_back({"t24", FileOf("{\"\":" + kGood + "}", 16)});
  to.push_back({"t25", FileOf(One(" I32", "2,2", "0,16"), 16), bad});
}

inline void AddDuplicates(std::vector<Probe>& to) {
  const std::string_view bad = "InvalidHeaderDeserialization";
  const std::string wrong = Entry("I32", "2,2", "4,20");
  to.push_back({"d01", FileOf(Twice(kGood, kGood), 16), kNone, Ours::kStrict});
  to.push_back({"d02", FileOf(Twice(wrong, kGood), 16), kNone, Ours::kStrict});
  to.push_back({"d03", FileOf(Twice(kGood, wrong), 16), "InvalidOffset", Ours::kStrict});
  to.push_back(
      {"d04", FileOf("{\"__metadata__\":{},\"__metadata__\":{},\"t\":" + kGood + "}", 16), bad});
  to.push_back({"d05", FileOf(Metadata("{\"k\":\"1\",\"k\":\"2\"}"), 16)});
  to.push_back({"d06", FileOf(WithField("\"dtype\":\"I32\""), 16), bad});
  to.push_back({"d07", FileOf(WithField("\"x\":1,\"x\":2"), 16)});
  to.push_back({"d08", FileOf(Twice(kGood, kGood, "\\u0074"), 16), kNone, Ours::kStrict});
}

inline void AddJson(std::vector<Probe>& to) {
  const std::string_view bad = "InvalidHeaderDeserialization";
  const std::string good = One(kGood);
  const auto named = [](std::string_view name) {
    return FileOf("{\"" + std::string(name) + "\":" + kGood + "}", 16);
  };
  std::string spaced;
  for (const char c : good)
    spaced += (c == ':' || c == ',' || c == '{') ? std::string(" ") + c + " " : std::string(1, c);
  std::string wide;  // UTF-16
  for (const char c : good) wide += std::string(1, c) + '\0';
  to.push_back({"j01", FileOf("{}")});
  to.push_back({"j02", FileOf(spaced, 16)});
  to.push_back({"j03", FileOf(good + " \t\r\n", 16)});
  to.push_back({"j04", FileOf("   " + good, 16)});
  to.push_back({"j05", FileOf("\t\r\n " + good, 16)});
  to.push_back({"j06", FileOf(good + "\0\0\0"s, 16), bad});
  to.push_back({"j07", FileOf(good + "x", 16), bad});
  to.push_back({"j08", FileOf("{}{}"), bad});
  to.push_back({"j09", FileOf("        "), bad});
  to.push_back({"j10", FileOf("[]"), bad});
  to.push_back({"j11", FileOf("null"), bad});
  to.push_back({"j12", FileOf("\"t\""), bad});
  to.push_back({"j13", FileOf("\xef\xbb\xbf" + good, 16), bad});
  to.push_back({"j14", FileOf("{\"t\":" + kGood + ",}", 16), bad});
  to.push_back({"j15", FileOf("{/* c */\"t\":" + kGood + "}", 16), bad});
  to.push_back({"j16", FileOf("{'t':" + kGood + "}", 16), bad});
  to.push_back({"j17", FileOf(wide, 16), bad});
  to.push_back({"j18", named("\xc3\x28"), "InvalidHeader"});
  to.push_back({"j19", named("\xc0\xaf"), "InvalidHeader"});
  to.push_back({"j20", named("\xed\xa0\x80"), "InvalidHeader"});
  to.push_back({"j21", named("\\ud800"), bad});
  to.push_back({"j22", named("\\ud83d\\ude00")});
  to.push_back({"j23", named("a\\u0000b")});
  to.push_back({"j24", named("a\nb"), bad});
  to.push_back({"j25", named("a\0b"s), bad});
  to.push_back({"j26", named("\\x41"), bad});
  to.push_back({"j27", FileOf(Nested(100), 16)});
  to.push_back({"j28", FileOf(Nested(130), 16), bad});
  to.push_back({"j29", FileOf(Nested(100'000), 16), bad});
  to.push_back({"j30", FileOf(std::string(100'000, '['), 16), bad});
  to.push_back(
      {"j31", FileOf("{\n  \"t\": {\n    \"dtype\": \"I32\",\n    \"shape\": [\n      2,\n"
                     "      2\n    ],\n    \"data_offsets\": [\n      0,\n      16\n    ]\n"
                     "  }\n}\n",
                     16)});
  to.push_back({"j32", FileOf(WithField("\"x\":Infinity"), 16), bad});
  to.push_back({"j33", FileOf(WithField("\"x\":NaN"), 16), bad});
  to.push_back(
      {"j34",
       FileOf(One("{\"\\u0064type\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}"), 16)});
  to.push_back({"j35", FileOf(One("\\u004932", "2,2", "0,16"), 16)});
}

inline void AddMetadata(std::vector<Probe>& to) {
  const std::string_view bad = "InvalidHeaderDeserialization";
  to.push_back({"m01", FileOf(Metadata("null"), 16)});
  to.push_back({"m02", FileOf(Metadata("{}"), 16)});
  to.push_back({"m03", FileOf(Metadata("{\"format\":\"pt\"}"), 16)});
  constexpr std::string_view kBad[] = {"[]",        "\"pt\"",       "1",
                                       "{\"k\":1}", "{\"k\":null}", "{\"k\":true}"};
  for (size_t i = 0; i < std::size(kBad); ++i)
    to.push_back({"m0" + std::to_string(4 + i), FileOf(Metadata(kBad[i]), 16), bad});
  to.push_back({"m10", FileOf("{\"t\":" + kGood + ",\"__metadata__\":{\"k\":\"v\"}}", 16)});
  to.push_back({"m11", FileOf(Metadata("{\"k\":[]}"), 16), bad});
  to.push_back({"m12", FileOf(Metadata("{\"k\":{}}"), 16), bad});
  to.push_back({"m13", FileOf(Metadata("true"), 16), bad});
}

inline void AddOffsets(std::vector<Probe>& to) {
  const std::string_view bad = "InvalidHeaderDeserialization";
  const std::string zero_at_0 = Entry("F32", "0", "0,0");
  const auto i32 = [](std::string_view offsets) { return Entry("I32", "2,2", offsets); };
  const auto one = [&](std::string_view offsets, size_t data = 16) {
    return FileOf(One(i32(offsets)), data);
  };
  to.push_back({"o01", one("16,0"), "InvalidOffset"});
  to.push_back({"o02", one("0,16,32"), bad});
  to.push_back({"o03", one("16"), bad});
  to.push_back({"o04", one("-16,0"), bad});
  to.push_back({"o05", one("0.0,16.0"), bad});
  to.push_back({"o06", one("4,20", 20), "InvalidOffset"});
  to.push_back({"o07", FileOf(Two(i32("0,16"), i32("20,36")), 36), "InvalidOffset"});
  to.push_back({"o08", FileOf(Two(i32("0,16"), i32("12,28")), 28), "InvalidOffset"});
  to.push_back({"o09", FileOf(Two(kGood, kGood), 16), "InvalidOffset"});
  to.push_back({"o10", FileOf(Two(i32("16,32"), i32("0,16")), 32)});
  to.push_back({"o11", FileOf("{\"a\":" + kGood + ",\"z\":" + Entry("F32", "0", "16,16") +
                                  ",\"b\":" + i32("16,32") + "}",
                              32)});
  to.push_back(
      {"o12", FileOf("{\"a\":" + zero_at_0 + ",\"b\":" + kGood + ",\"c\":" + zero_at_0 + "}", 16)});
  to.push_back({"o13", FileOf(Two(kGood, Entry("F32", "0", "8,8")), 16), "InvalidOffset"});
  to.push_back({"o14", FileOf(Two(kGood, Entry("F32", "0", "16,16")), 16)});
  to.push_back({"o15", FileOf(Two(kGood, Entry("F32", "0", "20,20")), 16), "InvalidOffset"});
  to.push_back({"o16", one("0,16", 17), "MetadataIncompleteBuffer"});
  to.push_back({"o17", one("0,16", 14), "MetadataIncompleteBuffer"});
  to.push_back({"o18", FileOf("{}", 1), "MetadataIncompleteBuffer"});
  to.push_back({"o19", one("0,4"), "TensorInvalidInfo"});
  to.push_back({"o20", one("0,17", 17), "TensorInvalidInfo"});
  to.push_back({"o21", one("0," + std::string(kMax)), "TensorInvalidInfo"});
  to.push_back({"o22", FileOf(Two(Entry("U8", "1", "0,1"), Entry("F32", "1", "1,5")), 5)});
  to.push_back({"o23", FileOf(One(kGood) + std::string(One(kGood).size() % 2 ? 0 : 1, ' '), 16)});
  const uint64_t largest = (uint64_t{1} << 61) - 1;  // U8 counts bits first
  to.push_back({"o24", FileOf(Chain(8, largest, 0)), "MetadataIncompleteBuffer"});
  to.push_back({"o25", FileOf(Chain(8, largest, 7)), "MetadataIncompleteBuffer"});
  to.push_back({"o26", FileOf(One("U8", "4194304", "0,4194304"), 1), "MetadataIncompleteBuffer"});
  to.push_back({"o27",
                FileOf(One("{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":{\"0\":16}}"), 16),
                bad});
}

inline void AddShapes(std::vector<Probe>& to) {
  const std::string_view bad = "InvalidHeaderDeserialization";
  const std::string max = kMax;
  const auto empty = [](const std::string& shape) { return FileOf(One("F32", shape, "0,0")); };
  constexpr std::string_view kBad[] = {"-2,2",    "2.0,2",  "2e0,2",
                                       "\"2\",2", "null,2", "{},2",
                                       "-0,2",    "02,2",   "18446744073709551616,2"};
  for (size_t i = 0; i < std::size(kBad); ++i)
    to.push_back({"s0" + std::to_string(1 + i), FileOf(One("I32", kBad[i], "0,16"), 16), bad});
  to.push_back({"s10", FileOf(One("U8", max, "0,16"), 16), "ValidationOverflow"});
  to.push_back(
      {"s11", FileOf(One("I32", "2,18446744073709551614", "0,16"), 16), "ValidationOverflow"});
  to.push_back(
      {"s12", FileOf(One("I32", "2,9223372036854775807", "0,16"), 16), "ValidationOverflow"});
  to.push_back({"s13", empty("0," + max + "," + max), kNone, Ours::kUnsupported});
  to.push_back({"s14", empty(max + "," + max + ",0"), "ValidationOverflow"});
  to.push_back({"s15", empty(max + ",0"), kNone, Ours::kUnsupported});
  to.push_back({"s16", FileOf(One("U8", Repeat("1", 1000), "0,1"), 1)});
  to.push_back(
      {"s17", FileOf(One("I32", "4294967296,4294967296,16", "0,16"), 16), "ValidationOverflow"});
  to.push_back({"s18", FileOf(One("U8", "2305843009213693954", "0,16"), 16), "ValidationOverflow"});
  to.push_back({"s19", FileOf(One("I32", "+2,2", "0,16"), 16), bad});
  to.push_back({"s20", FileOf(One("I32", "true,2", "0,16"), 16), bad});
}

inline void AddSubByte(std::vector<Probe>& to) {
  to.push_back({"b01", FileOf(One("F4", "1,2", "0,1"), 1)});
  to.push_back({"b02", FileOf(One("F4", "3", "0,1"), 1), "MisalignedSlice"});
  to.push_back({"b03", FileOf(One("F4", "3", "0,2"), 2), "MisalignedSlice"});
  to.push_back({"b04", FileOf(One("F4", "", "0,1"), 1), "MisalignedSlice"});
  to.push_back({"b05", FileOf(One("F6_E2M3", "4", "0,3"), 3)});
  to.push_back({"b06", FileOf(One("F6_E2M3", "3", "0,3"), 3), "MisalignedSlice"});
  to.push_back({"b07", FileOf(One("F6_E3M2", "8", "0,6"), 6)});
  to.push_back({"b08", FileOf(One("F4", "0", "0,0"))});
  std::string bools = FileOf(One("BOOL", "2", "0,2"));
  to.push_back({"b09", bools + "\x02\xff"});
}

inline void AddAttacks(std::vector<Probe>& to) {
  to.push_back({"a01", FileOf(Two(Entry("F32", "2,2", "0,16"), Entry("F32", "2,2", "0,16")), 16),
                "InvalidOffset"});
  to.push_back(
      {"a02", FileOf(One(kGood), 16) + "tail of another format", "MetadataIncompleteBuffer"});
  to.push_back({"a03", FileOf(One(kGood), 16) + "PK\x05\x06" + std::string(18, '\0'),
                "MetadataIncompleteBuffer"});
}

}  // namespace probe_rows

inline std::vector<Probe> Probes() {
  std::vector<Probe> probes;
  probe_rows::AddPrefix(probes);
  probe_rows::AddEntries(probes);
  probe_rows::AddDuplicates(probes);
  probe_rows::AddJson(probes);
  probe_rows::AddMetadata(probes);
  probe_rows::AddOffsets(probes);
  probe_rows::AddShapes(probes);
  probe_rows::AddSubByte(probes);
  probe_rows::AddAttacks(probes);
  return probes;
}

}  // namespace nxdkit::safetensors::testing
