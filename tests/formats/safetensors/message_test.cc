// The parts of an error message: fault, tensor, place, found and expected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/safetensors/probe_table.h"
#include "tests/formats/scratch.h"

namespace nxdkit::safetensors {
namespace {

using testing::Entry;
using testing::FileOf;
using testing::LengthBytes;
using testing::One;

struct Row {
  const char* name;
  std::string bytes;
  Errc code;
  std::string tensor;
  uint64_t offset;
  std::string message;  // a part of it
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::string TwoTensors(const std::string& a, const std::string& b) {
  return "{\"a\":" + a + ",\"b\":" + b + "}";
}

std::vector<Row> Rows() {
  const std::string good = Entry("I32", "2,2", "0,16");
  const std::string bad_json = "{\"t\":" + good + ",}";
  const std::string repeated = "{\"t\":" + good + ",\"t\":" + good + "}";
  const uint64_t second_t = 8 + repeated.rfind('{');
  return {
      {"TooSmall", "abc", Errc::kCorrupt, "", 0,
       "HeaderTooSmall: the file has 3 bytes, the header's length alone takes 8"},
      {"TooLarge", LengthBytes(100'000'001), Errc::kCorrupt, "", 0,
       "HeaderTooLarge: header length 100000001 is over the limit of 100000000"},
      {"Length", LengthBytes(300) + "{}", Errc::kCorrupt, "", 0,
       "InvalidHeaderLength: header length 300 is more than the 2 bytes that follow it"},
      {"Utf8", FileOf("{\"\xc3\x28\":1}"), Errc::kCorrupt, "", 10,
       "InvalidHeader: byte 0xc3 makes the header invalid as UTF-8"},
      {"Syntax", FileOf(bad_json, 16), Errc::kCorrupt, "", 8 + bad_json.size() - 1,
       "InvalidHeaderDeserialization: JSON error at byte 0x7d: object key"},
      {"ByteOrderMark", FileOf("\xef\xbb\xbf{}"), Errc::kCorrupt, "", 8, "JSON error at byte 0xef"},
      {"NulAfter", FileOf(std::string("{}\0", 3)), Errc::kCorrupt, "", 10,
       "JSON error at byte 0x00"},
      {"EndsEarly", FileOf("{\"t\""), Errc::kCorrupt, "", 12, "JSON ends too early"},
      {"Empty", FileOf(""), Errc::kCorrupt, "", 8, "JSON ends too early"},
      {"Depth", FileOf("{\"t\":{\"x\":" + std::string(126, '[')), Errc::kCorrupt, "", 8 + 10 + 125,
       "JSON nested 128 deep, the limit is 127"},
      {"Root", FileOf("[]"), Errc::kCorrupt, "", 8, "found an array, but the header is an object"},
      {"EntryIsArray", FileOf(One("[]")), Errc::kCorrupt, "t", 13,
       "found an array, but a tensor is"},
      {"EntryIsString", FileOf(One("\"x\"")), Errc::kCorrupt, "t", 15, "found \"x\", but a tensor"},
      {"Dtype", FileOf(One("i32", "", "0,4"), 4), Errc::kCorrupt, "t", 26,
       "dtype \"i32\" is none of the format's 22"},
      {"DtypeLong", FileOf(One(std::string(100, 'F'), "", "0,4"), 4), Errc::kCorrupt, "t", 123,
       "dtype a string of 100 bytes is none"},
      {"TorchDtype", FileOf(One("C128", "", "0,16"), 16), Errc::kCorrupt, "t", 27, "C128"},
      {"DtypeNumber", FileOf(One("{\"dtype\":7}")), Errc::kCorrupt, "t", 23, "found 7, but dtype"},
      {"Negative", FileOf(One("I32", "-2", "0,8"), 8), Errc::kCorrupt, "t", 39,
       "found a negative number, but a dim is an integer"},
      {"TwoOffsets", FileOf(One("I32", "2", "8"), 8), Errc::kCorrupt, "t", 57,
       "data_offsets has 1 items instead of two"},
      {"ThreeOffsets", FileOf(One("I32", "2", "0,8,9"), 8), Errc::kCorrupt, "t", 61,
       "data_offsets has more than two items"},
      {"Missing", FileOf(One("{\"dtype\":\"I32\",\"shape\":[]}")), Errc::kCorrupt, "t", 38,
       "data_offsets is missing"},
      {"FieldTwice", FileOf(One("{\"shape\":[],\"shape\":[]}")), Errc::kCorrupt, "t", 31,
       "field shape is there twice"},
      {"NameTwice", FileOf(repeated, 16), Errc::kCorrupt, "t", second_t,
       "a second tensor of this name; the first is at offset 13"},
      {"MetadataTwice", FileOf("{\"__metadata__\":{},\"__metadata__\":{}}"), Errc::kCorrupt, "", 40,
       "__metadata__ is there twice"},
      {"MetadataValue", FileOf("{\"__metadata__\":{\"k\":1}}"), Errc::kCorrupt, "", 30,
       "found 1, but a value of __metadata__ is a string"},
      {"Hole", FileOf(TwoTensors(good, Entry("I32", "2,2", "20,36")), 36), Errc::kCorrupt, "b", 69,
       "InvalidOffset: data_offsets [20, 36] where the data before ends at 16"},
      {"Reversed", FileOf(TwoTensors(good, Entry("I32", "2,2", "16,4")), 36), Errc::kCorrupt, "b",
       69, "InvalidOffset: data_offsets [16, 4] end before they begin"},
      {"ElementsOverflow", FileOf(One("U8", "4294967296,4294967296", "0,1"), 1), Errc::kCorrupt,
       "t", 13, "ValidationOverflow: shape [4294967296, 4294967296] has more than 2^64-1 elements"},
      {"BitsOverflow", FileOf(One("I32", "9223372036854775807", "0,1"), 1), Errc::kCorrupt, "t", 13,
       "ValidationOverflow: 9223372036854775807 elements of I32 have more than 2^64-1 bits"},
      {"Misaligned", FileOf(One("F4", "3", "0,1"), 1), Errc::kCorrupt, "t", 13,
       "MisalignedSlice: 3 elements of F4 are 12 bits, not whole bytes"},
      {"Info", FileOf(One("F32", "2,2", "0,15"), 15), Errc::kCorrupt, "t", 13,
       "TensorInvalidInfo: data_offsets [0, 15] hold 15 bytes, F32 [2, 2] needs 16"},
      {"Incomplete", FileOf(One("F32", "2,2", "0,16"), 17), Errc::kCorrupt, "", 65,
       "MetadataIncompleteBuffer: the tensors take 16 bytes, the file has 17 bytes of data"},
  };
}

class Message : public ::testing::TestWithParam<Row> {};

TEST_P(Message, NamesPlaceFoundAndExpected) {
  const Row& row = GetParam();
  const testing_util::Scratch scratch;
  const std::string path = scratch.Write("bad.safetensors", row.bytes);
  const Result<TensorFile> file = Open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code(), row.code);
  EXPECT_EQ(file.error().file(), path);
  EXPECT_EQ(file.error().tensor(), row.tensor);
  EXPECT_EQ(file.error().offset().value_or(~uint64_t{0}), row.offset);
  EXPECT_THAT(file.error().message(), ::testing::HasSubstr(row.message));
}

INSTANTIATE_TEST_SUITE_P(All, Message, ::testing::ValuesIn(Rows()),
                         [](const auto& row) { return std::string(row.param.name); });

// A file with too many bytes is damaged in another way.
TEST(Message, AFileThatIsCutOffSaysSo) {
  const testing_util::Scratch scratch;
  for (const auto& [bytes, hint] :
       {std::pair(15, "the file is cut off: copy or download it again"), {17, ""}}) {
    const Result<TensorFile> file =
        Open(scratch.Write("cut.safetensors", FileOf(One("F32", "2,2", "0,16"), bytes)));
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().hint(), hint) << bytes;
  }
}

TEST(Message, MissingFileIsNotFoundAndFolderIsRefused) {
  const testing_util::Scratch scratch;
  const Result<TensorFile> missing = Open(scratch.Path("none.safetensors"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), Errc::kNotFound);
  EXPECT_EQ(missing.error().file(), scratch.Path("none.safetensors"));
  EXPECT_EQ(testing::FaultOf(missing), testing::kNone);

  const Result<TensorFile> folder = Open(scratch.folder());
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().file(), scratch.folder());
}

}  // namespace
}  // namespace nxdkit::safetensors
