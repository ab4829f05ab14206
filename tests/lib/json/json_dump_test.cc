// The expectations are the output of CPython 3.11.7's json.dumps and repr.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "lib/json/json.h"

namespace nxdkit {
namespace {

TEST(DumpPython, SortedWithIndent) {
  const Json json = *ParseJson(
      R"({"z": [1, 2.5, {"y": [], "x": {}}],
          "a": "caf\u00e9 \ud83d\ude00 \u007f \u0000\u001f\b\f\n\r\t\"\\/",
          "b": null, "t": true, "f": false, "n": -1, "big": 18446744073709551615,
          "neg": -9223372036854775808, "\u00e9": 1, "Z": 0, "": [[]]})");
  EXPECT_EQ(DumpPython(json), R"({
  "": [
    []
  ],
  "Z": 0,
  "a": "caf\u00e9 \ud83d\ude00 \u007f \u0000\u001f\b\f\n\r\t\"\\/",
  "b": null,
  "big": 18446744073709551615,
  "f": false,
  "n": -1,
  "neg": -9223372036854775808,
  "t": true,
  "z": [
    1,
    2.5,
    {
      "x": {},
      "y": []
    }
  ],
  "\u00e9": 1
})");
}

TEST(DumpPython, UnsortedKeepsTheOrder) {
  const Json json = *ParseJson(R"({"b":1,"a":{"d":1,"c":2}})");
  EXPECT_EQ(DumpPython(json, false), R"({
  "b": 1,
  "a": {
    "d": 1,
    "c": 2
  }
})");
}

TEST(DumpPython, Scalars) {
  EXPECT_EQ(DumpPython(Json::array()), "[]");
  EXPECT_EQ(DumpPython(Json::object()), "{}");
  EXPECT_EQ(DumpPython(nullptr), "null");
  EXPECT_EQ(DumpPython("x"), "\"x\"");
  EXPECT_EQ(DumpPython(*ParseJson("[NaN,Infinity,-Infinity]", {.allow_nan = true})),
            "[\n  NaN,\n  Infinity,\n  -Infinity\n]");
}

// json.dumps(os.fsdecode(b"\x80\xff")) in a UTF-8 locale.
TEST(DumpPython, BytesThatAreNotUtf8) { EXPECT_EQ(DumpPython("\x80\xff"), R"("\udc80\udcff")"); }

TEST(PythonFloat, AsRepr) {
  const std::pair<double, const char*> rows[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1, "1.0"},
      {0.1, "0.1"},
      {1234.5, "1234.5"},
      {100000, "100000.0"},
      {0.0001, "0.0001"},
      {0.00012345, "0.00012345"},
      {1e-05, "1e-05"},
      {1e-06, "1e-06"},
      {-1.5e-07, "-1.5e-07"},
      {9999999999999998, "9999999999999998.0"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {123456789012345680, "1.2345678901234568e+17"},
      {1e22, "1e+22"},
      {1e100, "1e+100"},
      {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {500000.0, "500000.0"},
      {0x1p-44, "5.684341886080802e-14"},
      {std::numeric_limits<double>::quiet_NaN(), "NaN"},
      {HUGE_VAL, "Infinity"},
      {-HUGE_VAL, "-Infinity"},
  };
  for (const auto& [value, text] : rows) EXPECT_EQ(PythonFloat(value), text);
}

}  // namespace
}  // namespace nxdkit
