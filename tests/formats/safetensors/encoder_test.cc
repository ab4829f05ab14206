// The canonical writer, byte for byte, and the tensors that it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "formats/safetensors/encoder.h"
#include "formats/safetensors/limits.h"
#include "tests/formats/safetensors/probe_table.h"
#include "tests/formats/safetensors/write_file.h"
#include "tests/formats/scratch.h"

namespace nxdkit::safetensors {
namespace {

using ::testing::HasSubstr;
using testing::LengthBytes;
using testing::WholeFile;

using Metadata = std::map<std::string, std::string>;
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

struct Vector {
  const char* name;
  std::vector<OutputTensor> tensors;
  std::vector<std::string> data;
  Metadata metadata;
  std::string header;
  std::string data_section;
};

void PrintTo(const Vector& row, std::ostream* out) { *out << row.name; }

std::vector<Vector> Vectors() {
  const std::string sixteen("\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17", 16);
  const std::string eight = sixteen.substr(8);
  return {
      {"Empty", {}, {}, {}, "{}      ", ""},
      {"MetadataOnly",
       {},
       {},
       {{"framework", "pt"}},
       "{\"__metadata__\":{\"framework\":\"pt\"}}    ",
       ""},
      {"I32",
       {{"test", Dtype::kI32, {2, 2}}},
       {sixteen},
       {},
       "{\"test\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}    ",
       sixteen},
      {"F4",
       {{"attn.0", Dtype::kF4, {1, 2}}},
       {"\x21"},
       {},
       "{\"attn.0\":{\"dtype\":\"F4\",\"shape\":[1,2],\"data_offsets\":[0,1]}}    ",
       "\x21"},
      {"F32",
       {{"attn0", Dtype::kF32, {1, 1, 2, 3}}},
       {sixteen + eight},
       {},
       "{\"attn0\":{\"dtype\":\"F32\",\"shape\":[1,1,2,3],\"data_offsets\":[0,24]}}       ",
       sixteen + eight},
      {"TwoInAnyOrder",
       {{"test2", Dtype::kF16, {2, 2}}, {"test1", Dtype::kI32, {2, 2}}},
       {eight, sixteen},
       {},
       "{\"test1\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
       "\"test2\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[16,24]}}      ",
       sixteen + eight},
      {"ScalarAndEmpty",
       {{"z", Dtype::kU8, {2, 0}}, {"s", Dtype::kU8, {}}},
       {"", "\x07"},
       {},
       "{\"s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
       "\"z\":{\"dtype\":\"U8\",\"shape\":[2,0],\"data_offsets\":[1,1]}}",
       "\x07"},
      // Code points, not UTF-16 units: U+FFFF before U+1F600.
      {"NamesByBytes",
       {{"\xf0\x9f\x98\x80", Dtype::kU8, {1}},
        {"\xef\xbf\xbf", Dtype::kU8, {1}},
        {"a\"\\/\b\f\n\r\t\x01\x7f", Dtype::kU8, {1}}},
       {"1", "2", "3"},
       {},
       "{\"a\\\"\\\\/"
       "\\b\\f\\n\\r\\t\\u0001\x7f\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
       "\"\xef\xbf\xbf\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
       "\"\xf0\x9f\x98\x80\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
       "321"},
      {"MetadataSorted",
       {},
       {},
       {{"b", "2"}, {"a", "\x1f\xc2\xa0"}},
       "{\"__metadata__\":{\"a\":\"\\u001f\xc2\xa0\",\"b\":\"2\"}}",
       ""},
  };
}

class Canonical : public ::testing::TestWithParam<Vector> {};

TEST_P(Canonical, ByteForByte) {
  const Vector& row = GetParam();
  std::string header = row.header;
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::string expected = LengthBytes(header.size()) + header + row.data_section;
  EXPECT_EQ(WholeFile(row.tensors, row.data, row.metadata), expected);

  // Written files are read back.
  const testing_util::Scratch scratch;
  const Result<TensorFile> file = Open(scratch.Write("out.safetensors", expected));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_EQ(file->tensors.size(), row.tensors.size());
  EXPECT_EQ(Metadata(file->metadata.begin(), file->metadata.end()), row.metadata);
}

INSTANTIATE_TEST_SUITE_P(All, Canonical, ::testing::ValuesIn(Vectors()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Encoder, HeaderLengthsOfTheReferenceVectors) {
  const auto length = [](std::vector<OutputTensor> tensors, const Metadata& metadata = {}) {
    const auto encoder = Encode(std::move(tensors), metadata);
    return encoder.ok() ? (*encoder)->Frame({}).at(0).bytes.size() - 8 : 0;
  };
  EXPECT_EQ(length({}), 8u);
  EXPECT_EQ(length({}, {{"framework", "pt"}}), 40u);
  EXPECT_EQ(length({{"test", Dtype::kI32, {2, 2}}}), 64u);
  EXPECT_EQ(length({{"attn.0", Dtype::kF4, {1, 2}}}), 64u);
  EXPECT_EQ(length({{"attn0", Dtype::kF32, {1, 1, 2, 3}}}), 72u);
  EXPECT_EQ(length({{"test2", Dtype::kF16, {2, 2}}, {"test1", Dtype::kI32, {2, 2}}}), 128u);
}

TEST(Encoder, KeepsTheOrderGivenAndSaysWhereEachTensorGoes) {
  const auto encoder = Encode({{"test2", Dtype::kF16, {2, 2}}, {"test1", Dtype::kI32, {2, 2}}}, {});
  ASSERT_TRUE(encoder.ok());
  EXPECT_EQ((*encoder)->tensors().at(0).name, "test2");
  EXPECT_EQ((*encoder)->data_offset(0), 136u + 16);
  EXPECT_EQ((*encoder)->data_offset(1), 136u);
  EXPECT_EQ((*encoder)->file_bytes(), 136u + 24);
  EXPECT_FALSE((*encoder)->needs_crc());
  EXPECT_EQ((*encoder)->Frame({}).size(), 1u);
  EXPECT_EQ((*encoder)->Frame({}).at(0).offset, 0u);
}

// The writer's order is the dtype enum's, descending, so all types of 16 bits and more are aligned.
TEST(Encoder, SortsEveryDtypeDescending) {
  std::vector<OutputTensor> tensors;
  for (int i = 0; i < kSafetensorsDtypeCount; ++i)
    tensors.push_back({"t" + std::string(Name(static_cast<Dtype>(i))), static_cast<Dtype>(i), {4}});
  const auto encoder = Encode(tensors, {});
  ASSERT_TRUE(encoder.ok()) << encoder.error().ToString();
  const char* const kExpected[] = {
      "U64", "I64", "F64",     "C64",         "F32",         "U32",     "I32",     "BF16",
      "F16", "U16", "I16",     "F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0", "F8_E4M3", "F8_E5M2",
      "I8",  "U8",  "F6_E3M2", "F6_E2M3",     "F4",          "BOOL"};
  const std::string header = (*encoder)->Frame({}).at(0).bytes;
  size_t last = 0;
  for (const char* dtype : kExpected) {
    const size_t place = header.find("\"t" + std::string(dtype) + "\":");
    ASSERT_NE(place, std::string::npos) << dtype;
    EXPECT_GT(place, last) << dtype;
    last = place;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto unit = static_cast<uint64_t>(Info(tensors[i].dtype).swap_bytes);
    EXPECT_EQ((*encoder)->data_offset(i) % unit, 0u) << tensors[i].name;
  }
}

struct Refusal {
  const char* name;
  std::vector<OutputTensor> tensors;
  Metadata metadata;
  Errc code;
  std::string tensor;
  std::string message;
};

void PrintTo(const Refusal& row, std::ostream* out) { *out << row.name; }

std::vector<Refusal> Refusals() {
  return {
      {"TwoOfOneName",
       {{"a", Dtype::kF32, {}}, {"b", Dtype::kF32, {}}, {"a", Dtype::kI64, {}}},
       {},
       Errc::kUsage,
       "a",
       "two tensors of one name"},
      {"ReservedName",
       {{"__metadata__", Dtype::kF32, {}}},
       {},
       Errc::kUsage,
       "__metadata__",
       "reserved"},
      {"TorchOnlyDtype", {{"a", Dtype::kC128, {}}}, {}, Errc::kUsage, "a", "no dtype C128"},
      {"NameNotUtf8", {{"a\xff", Dtype::kF32, {}}}, {}, Errc::kUsage, "a\xff", "not UTF-8"},
      {"MetadataKeyNotUtf8", {}, {{"\xc3", "v"}}, Errc::kUsage, "", "not UTF-8"},
      {"MetadataValueNotUtf8", {}, {{"k", "\xc3"}}, Errc::kUsage, "", "entry k is not UTF-8"},
      {"HalfByte", {{"a", Dtype::kF4, {3}}}, {}, Errc::kUsage, "a", "12 bits"},
      {"NegativeDim", {{"a", Dtype::kF32, {-1}}}, {}, Errc::kUsage, "a", "[-1]"},
      {"ElementOverflow", {{"a", Dtype::kU8, {kInt64Max, 2}}}, {}, Errc::kUsage, "a", "2^63"},
      {"FileOverflow",
       {{"a", Dtype::kU8, {kInt64Max}}, {"b", Dtype::kU8, {1}}},
       {},
       Errc::kLimit,
       "a",
       "2^63 bytes"},
      {"Rank", {{"a", Dtype::kU8, Shape(65'553, 1)}}, {}, Errc::kLimit, "a", "65553 dims"},
      {"HeaderBytes",
       {},
       {{"k", std::string(kMaxHeaderBytes, 'x')}},
       Errc::kLimit,
       "",
       "the limit is 100000000"},
  };
}

class EncoderRefuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(EncoderRefuses, WithReason) {
  const Refusal& row = GetParam();
  const auto encoder = Encode(row.tensors, row.metadata);
  ASSERT_FALSE(encoder.ok());
  EXPECT_EQ(encoder.error().code(), row.code);
  EXPECT_EQ(encoder.error().tensor(), row.tensor);
  EXPECT_THAT(encoder.error().message(), HasSubstr(row.message));
}

INSTANTIATE_TEST_SUITE_P(All, EncoderRefuses, ::testing::ValuesIn(Refusals()),
                         [](const auto& row) { return std::string(row.param.name); });

// 100,000,000 header bytes are allowed to both sides.
TEST(Encoder, HeaderOfExactlyTheLimit) {
  const std::string frame = "{\"__metadata__\":{";
  Metadata metadata;
  // Entries of 1 MB, because a single string has a limit of its own in the reader.
  uint64_t used = frame.size() + 2;
  for (int i = 0; used < kMaxHeaderBytes; ++i) {
    const std::string key = "key" + std::to_string(1000 + i);
    const uint64_t overhead = key.size() + 5 + (i == 0 ? 0 : 1);
    const uint64_t value = std::min<uint64_t>(1'000'000, kMaxHeaderBytes - used - overhead);
    metadata[key] = std::string(value, 'x');
    used += overhead + value;
  }
  const auto encoder = Encode({}, metadata);
  ASSERT_TRUE(encoder.ok()) << encoder.error().ToString();
  const std::string bytes = (*encoder)->Frame({}).at(0).bytes;
  EXPECT_EQ(bytes.size(), 8 + kMaxHeaderBytes);
  const testing_util::Scratch scratch;
  const Result<TensorFile> file = Open(scratch.Write("big.safetensors", bytes));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_EQ(file->metadata.size(), metadata.size());
}

}  // namespace
}  // namespace nxdkit::safetensors
