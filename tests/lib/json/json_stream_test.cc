// The event stream of a JSON text, its strictness and its limits.
#include "lib/json/json_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/memory_file.h"

namespace nxdkit {
namespace {

using ::testing::HasSubstr;
using testing_util::MemoryFile;

// The events as text.
class Recorder : public JsonHandler {
 public:
  std::string text;
  Status Key(std::string_view key) override { return Add("k:" + std::string(key)); }
  Status String(std::string_view value) override { return Add("s:" + std::string(value)); }
  Status Unsigned(uint64_t value) override { return Add("u:" + std::to_string(value)); }
  Status Scalar(JsonKind kind) override { return Add(std::string(JsonKindName(kind))); }
  Status Begin(JsonKind kind, uint64_t offset) override {
    return Add((kind == JsonKind::kObject ? "{@" : "[@") + std::to_string(offset));
  }
  Status End(JsonKind kind) override { return Add(kind == JsonKind::kObject ? "}" : "]"); }

 private:
  Status Add(const std::string& event) {
    if (event == "s:stop") return Error(Errc::kFindings, "stopped").on("tensor");
    text += (text.empty() ? "" : " ") + event;
    return OkStatus();
  }
};

struct Outcome {
  Status status;
  std::string events;
};

// Parses `json`, which is between other bytes in the file.
Outcome Streamed(const std::string& json, const JsonStreamLimits& limits = {}) {
  MemoryFile memory;
  memory.Set("1234" + json + "}]");
  const Result<File> file = File::OpenRead(memory.path());
  Recorder recorder;
  if (!file.ok()) return {file.error(), ""};
  Status status = ReadJsonStream(*file, 4, json.size(), recorder, limits);
  return {std::move(status), recorder.text};
}

TEST(JsonStream, EventsInOrder) {
  const Outcome outcome = Streamed(
      " {\"a\" : [1, -2, -0, 1.5, 1e2, 18446744073709551616, 18446744073709551615, true, "
      "null, \"x\\n\\u00e9\"], \"b\":{} , \"a\":[]} \n");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().ToString();
  const std::string negative(JsonKindName(JsonKind::kNegative));
  const std::string other(JsonKindName(JsonKind::kFloat));
  EXPECT_EQ(outcome.events, "{@5 k:a [@12 u:1 " + negative + " " + negative + " " + other + " " +
                                other + " " + other +
                                " u:18446744073709551615 a boolean null s:x\n\xc3\xa9 ] k:b "
                                "{@108 } k:a [@117 ] }");
}

TEST(JsonStream, AnyRootValue) {
  EXPECT_EQ(Streamed("\"x\"").events, "s:x");
  EXPECT_EQ(Streamed(" 7 ").events, "u:7");
  EXPECT_EQ(Streamed("null").events, "null");
  EXPECT_TRUE(Streamed("null").status.ok());
}

struct Row {
  const char* name;
  std::string json;
  uint64_t offset;  // in the text
  std::string message;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::vector<Row> Rows() {
  using std::string_literals::operator""s;
  return {
      {"Empty", "", 0, "JSON ends too early"},
      {"Spaces", " \n ", 3, "JSON ends too early"},
      {"Cut", "[1,", 3, "JSON ends too early"},
      {"Word", "nul", 3, "JSON ends too early"},
      {"ByteOrderMark", "\xef\xbb\xbf{}", 0, "JSON error at byte 0xef"},
      {"ByteOrderMarkAfterSpace", " \xef\xbb\xbf{}", 1, "JSON error at byte 0xef"},
      {"Nul", "[\0]"s, 1, "JSON error at byte 0x00"},
      {"NulAtTheEnd", "[]\0"s, 2, "JSON error at byte 0x00"},
      {"NulInString", "\"a\0b\""s, 2, "JSON error at byte 0x00"},
      {"SecondValue", "{} {}", 3, "JSON error at byte 0x7b"},
      {"AfterNumber", "1x", 1, "JSON error at byte 0x78"},
      {"TrailingComma", "[1,]", 3, "JSON error at byte 0x5d"},
      {"Comment", "[/**/]", 1, "JSON error at byte 0x2f"},
      {"LeadingZero", "[01]", 3, "unexpected number literal"},
      {"Plus", "[+1]", 1, "JSON error at byte 0x2b"},
      {"Nan", "[NaN]", 1, "JSON error at byte 0x4e"},
      {"Overflow", "[1e999]", 6, "number overflow"},
      {"LoneSurrogate", "\"\\ud800x\"", 7, "JSON error at byte 0x78"},
      {"NotUtf8", "\"\xc0\xaf\"", 1, "JSON error at byte 0xc0"},
  };
}

class Refuses : public ::testing::TestWithParam<Row> {};

TEST_P(Refuses, WithTheOffset) {
  const Outcome outcome = Streamed(GetParam().json);
  ASSERT_FALSE(outcome.status.ok()) << outcome.events;
  EXPECT_EQ(outcome.status.error().code(), Errc::kCorrupt);
  EXPECT_EQ(outcome.status.error().offset(), 4 + GetParam().offset);
  EXPECT_THAT(outcome.status.error().message(), HasSubstr(GetParam().message));
  EXPECT_THAT(outcome.status.error().file(), HasSubstr("/proc/self/fd/"));
}

INSTANTIATE_TEST_SUITE_P(JsonStream, Refuses, ::testing::ValuesIn(Rows()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(JsonStream, HandlersErrorEndsTheParse) {
  const Outcome outcome = Streamed("[1,\"stop\",2]");
  ASSERT_FALSE(outcome.status.ok());
  EXPECT_EQ(outcome.status.error().code(), Errc::kFindings);
  EXPECT_EQ(outcome.status.error().tensor(), "tensor");
  EXPECT_EQ(outcome.status.error().offset(), 4u + 8);
  EXPECT_EQ(outcome.events, "[@4 u:1");
}

TEST(JsonStream, Depth) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(Streamed(nested(127)).status.ok());
  const Outcome outcome = Streamed(nested(128));
  ASSERT_FALSE(outcome.status.ok());
  EXPECT_EQ(outcome.status.error().code(), Errc::kCorrupt);
  EXPECT_EQ(outcome.status.error().offset(), 4u + 127);
  EXPECT_THAT(outcome.status.error().message(), HasSubstr("nested 128 deep, the limit is 127"));
  EXPECT_TRUE(Streamed("[[],[],[[]]]", {.depth = 3}).status.ok());
}

// The run is checked when a block of 64 KiB is used up.
TEST(JsonStream, RunWithoutAToken) {
  const JsonStreamLimits limits{.run_bytes = 100'000};
  const std::string block(200'000, ' ');
  EXPECT_TRUE(Streamed(block + "[]" + block, limits).status.ok());  // padding does not count
  for (const std::string& json : {"[1," + block + "2]", "\"" + block + "\"", "[" + block + "]"}) {
    const Outcome outcome = Streamed(json, limits);
    ASSERT_FALSE(outcome.status.ok());
    EXPECT_EQ(outcome.status.error().code(), Errc::kLimit);
    EXPECT_THAT(outcome.status.error().message(), HasSubstr("the limit is 100000"));
    EXPECT_LE(outcome.status.error().offset().value_or(99), 4u + 3);  // where the run begins
  }
  std::string many = "[0";
  while (many.size() < 300'000) many += ",0";
  EXPECT_TRUE(Streamed(many + "]", limits).status.ok());
}

TEST(JsonStream, TokensAcrossBlocks) {
  for (size_t shift = 65'530; shift < 65'540; ++shift) {
    const Outcome outcome =
        Streamed("[" + std::string(shift, ' ') + "12345678,\"\\ud83d\\ude00\",true]");
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().ToString();
    EXPECT_EQ(outcome.events, "[@4 u:12345678 s:\xf0\x9f\x98\x80 a boolean ]");
  }
}

TEST(JsonStream, MessagesAreShortAndPrintable) {
  const Outcome outcome = Streamed("[\"" + std::string(100'000, 'x') + "\x01\"]");
  ASSERT_FALSE(outcome.status.ok());
  EXPECT_LT(outcome.status.error().message().size(), 260u);
  for (const char c : outcome.status.error().message()) EXPECT_TRUE(c >= ' ' && c <= '~');
}

TEST(JsonStream, OfATextInMemory) {
  Recorder recorder;
  const std::string text = " {\"a\": [1, \"b\"]} ";
  ASSERT_TRUE(ReadJsonStream(text, recorder).ok());
  EXPECT_EQ(recorder.text, "{@1 k:a [@7 u:1 s:b ] }");
  const Status cut = ReadJsonStream(std::string_view(text).substr(0, 10), recorder);
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code(), Errc::kCorrupt);
  EXPECT_EQ(cut.error().offset(), 10u);
  EXPECT_THAT(cut.error().message(), HasSubstr("ends too early"));
  EXPECT_FALSE(ReadJsonStream("", recorder).ok());
}

TEST(JsonStream, FileThatShrank) {
  MemoryFile memory;
  memory.Set("[1,2,3]");
  const Result<File> file = File::OpenRead(memory.path());
  ASSERT_TRUE(file.ok());
  memory.Truncate(3);
  Recorder recorder;
  const Status status = ReadJsonStream(*file, 0, 7, recorder);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Errc::kCorrupt);
  EXPECT_EQ(status.error().file(), memory.path());
}

}  // namespace
}  // namespace nxdkit
