// Encoders of archive.h, read back by the reader; tests/interop/torch_interop.py checks them with
// the real torch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/torch/archive.h"
#include "formats/torch/encoder.h"
#include "tests/formats/torch/archive_io.h"
#include "tests/formats/torch/temp_folder.h"

namespace nxdkit::torch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Encodes, writes the pattern as data, reads back with CRC checks.
Archive RoundTrip(const Result<std::unique_ptr<FileEncoder>>& encoder) {
  EXPECT_TRUE(encoder.ok()) << encoder.error().ToString();
  const TempFolder folder;
  const std::string path = folder.File("x.pt", EncodedFile(**encoder));
  Result<Archive> archive = ReadArchive(path, {.check_crc = true});
  EXPECT_TRUE(archive.ok()) << archive.error().ToString();
  EXPECT_THAT(archive->warnings, ElementsAre());
  return std::move(*archive);
}

void ExpectPattern(const StoredTensor& tensor, const OutputTensor& output, size_t index) {
  EXPECT_EQ(tensor.dtype, output.dtype);
  EXPECT_EQ(tensor.shape, output.shape);
  EXPECT_TRUE(IsPacked(tensor));
  EXPECT_EQ(LogicalBytes(tensor).value(), PatternBytes(output, index)) << output.name;
}

TEST(Encoder, StateDictComesBack) {
  const std::vector<OutputTensor> tensors = {
      {"b.weight", Dtype::kBF16, {3, 5}}, {"a.weight", Dtype::kF32, {}},
      {"empty", Dtype::kI64, {0, 4}},     {"mask", Dtype::kBool, {7}},
      {"u16", Dtype::kU16, {2}},          {"f8", Dtype::kF8E4M3, {9}},
  };
  const Archive archive = RoundTrip(EncodeStateDict(tensors, "x"));
  EXPECT_EQ(archive.format, "torch zip");
  EXPECT_EQ(archive.version, "3\n");
  const Result<TensorFile> file = FlattenStateDict(archive);
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  ASSERT_EQ(file->tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(file->tensors[i].name, tensors[i].name);
    ExpectPattern(file->tensors[i], tensors[i], i);
  }
}

TEST(Encoder, BareTensorComesBack) {
  const OutputTensor tensor = {"ignored", Dtype::kF16, {4, 4}};
  const Archive archive = RoundTrip(EncodeTensor(tensor, "tensor_3"));
  ASSERT_NE(archive.root.tensor(), nullptr);
  EXPECT_EQ(archive.root.tensor()->index, 0u);
  ASSERT_EQ(archive.tensors.size(), 1u);
  ExpectPattern(archive.tensors[0], tensor, 0);
}

TEST(Encoder, DataIsAlignedTo64Bytes) {
  std::vector<OutputTensor> tensors;
  for (int i = 0; i < 70; ++i) tensors.push_back({std::string(1 + i, 'n'), Dtype::kU8, {i}});
  const auto encoder = EncodeStateDict(tensors, "some name");
  ASSERT_TRUE(encoder.ok());
  for (size_t i = 0; i < tensors.size(); ++i)
    EXPECT_EQ((*encoder)->data_offset(i) % 64, 0u) << "tensor " << i;
}

TEST(Encoder, RefusesTwoTensorsOfOneName) {
  const auto encoder = EncodeStateDict({{"w", Dtype::kU8, {1}}, {"w", Dtype::kU8, {1}}}, "x");
  ASSERT_FALSE(encoder.ok());
  EXPECT_EQ(encoder.error().code(), Errc::kInternal);
  EXPECT_EQ(encoder.error().tensor(), "w");
}

TEST(Encoder, RefusesElementsThatTorchDoesNotHave) {
  const auto encoder = EncodeStateDict({{"w", Dtype::kF6E2M3, {4}}}, "x");
  ASSERT_FALSE(encoder.ok());
  EXPECT_EQ(encoder.error().code(), Errc::kUnsupported);
  EXPECT_EQ(encoder.error().tensor(), "w");
  EXPECT_THAT(encoder.error().message(), HasSubstr("F6_E2M3"));
}

TEST(Encoder, RefusesOpaqueObjects) {
  const auto encoder = EncodeValue(PickleValue{OpaqueObject{"torch.device"}}, {}, "x");
  ASSERT_FALSE(encoder.ok());
  EXPECT_EQ(encoder.error().code(), Errc::kUnsupported);
  EXPECT_THAT(encoder.error().message(), HasSubstr("torch.device"));
}

TEST(Encoder, RefusesATensorThatTheValueDoesNotUse) {
  const auto encoder = EncodeValue(PickleValue{int64_t{1}}, {{"w", Dtype::kU8, {1}}}, "x");
  ASSERT_FALSE(encoder.ok());
  EXPECT_EQ(encoder.error().code(), Errc::kInternal);
  EXPECT_EQ(encoder.error().tensor(), "w");
}

TEST(Encoder, RefusesAFolderNameWithASlash) {
  for (const char* name : {"", "a/b"}) {
    const auto encoder = EncodeStateDict({}, name);
    ASSERT_FALSE(encoder.ok());
    EXPECT_EQ(encoder.error().code(), Errc::kInternal);
    EXPECT_THAT(encoder.error().message(), HasSubstr("folder inside"));
  }
}

// 5 GiB and 70,000 records are only planned here: this needs no data.
TEST(Encoder, PlansZip64) {
  const int64_t gib = 1 << 30;
  const auto encoder = EncodeStateDict(
      {{"small", Dtype::kU8, {3}}, {"large", Dtype::kU8, {5 * gib}}, {"behind", Dtype::kU8, {3}}},
      "x");
  ASSERT_TRUE(encoder.ok());
  EXPECT_GT((*encoder)->data_offset(2), static_cast<uint64_t>(5 * gib));
  const std::vector<uint32_t> crcs = {1, 2, 3};
  const std::vector<Fragment> frame = (*encoder)->Frame(crcs);
  ASSERT_EQ(frame.size(), 4u);
  // The frame and the data fill the file, without holes or overlaps.
  uint64_t at = 0;
  for (size_t i = 0; i < frame.size(); ++i) {
    EXPECT_EQ(frame[i].offset, at);
    at += frame[i].bytes.size();
    if (i < 3) {
      EXPECT_EQ((*encoder)->data_offset(i), at);
      at += i == 1 ? static_cast<uint64_t>(5 * gib) : 3;
    }
  }
  EXPECT_EQ(at, (*encoder)->file_bytes());
  // A zip64 end record and its locator stand before the last 22 bytes.
  EXPECT_EQ(frame.back().bytes.substr(frame.back().bytes.size() - 98, 4), std::string("PK\6\6"));
  EXPECT_EQ(frame.back().bytes.substr(frame.back().bytes.size() - 42, 4), std::string("PK\6\7"));
}

TEST(Encoder, MoreRecordsThan16BitsCount) {
  std::vector<OutputTensor> tensors;
  for (int i = 0; i < 66000; ++i) tensors.push_back({std::to_string(i), Dtype::kU8, {1}});
  const Archive archive = RoundTrip(EncodeStateDict(tensors, "x"));
  ASSERT_EQ(archive.tensors.size(), 66000u);
  EXPECT_EQ(LogicalBytes(archive.tensors[65999]).value(), PatternBytes(tensors[65999], 65999));
}

}  // namespace
}  // namespace nxdkit::torch
