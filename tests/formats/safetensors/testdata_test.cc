// The files of testdata/safetensors, written by the reference: we read the same values, and write
// the same bytes again. Then damage to every one of their bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lib/hash/digest.h"
#include "lib/json/json.h"
#include "tests/formats/memory_file.h"
#include "tests/formats/safetensors/invariants.h"
#include "tests/formats/safetensors/probe_table.h"
#include "tests/formats/safetensors/write_file.h"
#include "tests/formats/scratch.h"

namespace nxdkit::safetensors {
namespace {

using testing_util::MemoryFile;
using testing_util::ReadBytes;

const char* const kFolder = NXDKIT_TESTDATA "/safetensors";

std::string Path(const std::string& name) { return std::string(kFolder) + "/" + name; }

std::string Sha256Of(const std::string& bytes) {
  return Sha256Hex(std::as_bytes(std::span(bytes)));
}

Json Expected() {
  Result<Json> json = ReadJsonFile(Path("expected.json"), 1 << 20);
  EXPECT_TRUE(json.ok()) << json.error().ToString();
  return json.ok() ? *json : Json::object();
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(TestData, EveryFileHasItsExpectation) {
  std::vector<std::string> expected;
  const Json json = Expected();
  for (const auto& [name, value] : json.items()) expected.push_back(name);
  EXPECT_EQ(Names(), expected);
  EXPECT_EQ(expected.size(), 9u);
}

class RealFile : public ::testing::TestWithParam<std::string> {};

TEST_P(RealFile, ReadsAsTheReferenceReadsIt) {
  const Json expected = Expected()[GetParam()];
  ASSERT_EQ(Sha256Of(ReadBytes(Path(GetParam()))), expected["sha256"].get<std::string>());
  const Result<TensorFile> file = Open(Path(GetParam()));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_EQ(file->format, "safetensors");
  EXPECT_EQ(file->file_bytes, expected["bytes"].get<uint64_t>());
  EXPECT_EQ(file->tensors.size(), expected["tensors"].size());
  for (const StoredTensor& tensor : file->tensors) {
    ASSERT_TRUE(expected["tensors"].contains(tensor.name)) << tensor.name;
    const Json& row = expected["tensors"][tensor.name];
    EXPECT_EQ(Name(tensor.dtype), row["dtype"].get<std::string>()) << tensor.name;
    EXPECT_EQ(tensor.shape, row["shape"].get<Shape>()) << tensor.name;
    EXPECT_EQ(Sha256Of(testing::DataOf(tensor)), row["sha256"].get<std::string>()) << tensor.name;
  }
  Json metadata;  // null when there is none
  for (const auto& [key, value] : file->metadata) metadata[key] = value;
  std::map<std::string, std::string> sorted;
  if (!expected["metadata"].is_null()) sorted = expected["metadata"];
  EXPECT_EQ((std::map<std::string, std::string>(file->metadata.begin(), file->metadata.end())),
            sorted);
  EXPECT_TRUE(std::is_sorted(file->metadata.begin(), file->metadata.end()));
}

// The reference writes two or more metadata entries in random order; we sort them.
TEST_P(RealFile, IsWrittenAgainByteForByte) {
  const Result<TensorFile> file = Open(Path(GetParam()));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  std::vector<OutputTensor> tensors;
  std::vector<std::string> data;
  for (size_t i = file->tensors.size(); i-- > 0;) {
    tensors.push_back({file->tensors[i].name, file->tensors[i].dtype, file->tensors[i].shape});
    data.push_back(testing::DataOf(file->tensors[i]));
  }
  std::string bytes = ReadBytes(Path(GetParam()));
  std::string again = testing::WholeFile(
      tensors, data,
      std::map<std::string, std::string>(file->metadata.begin(), file->metadata.end()));
  if (file->metadata.size() > 1) {
    std::sort(bytes.begin(), bytes.end());
    std::sort(again.begin(), again.end());
  }
  EXPECT_EQ(again, bytes);
}

// Whatever the damage: accepted with all invariants, or refused as corrupt.
void ExpectReadOrRefused(const std::string& path, const std::string& what) {
  const Result<TensorFile> file = Open(path);
  if (file.ok()) {
    EXPECT_EQ(testing::BrokenInvariant(*file), "") << what;
    return;
  }
  EXPECT_EQ(file.error().code(), Errc::kCorrupt) << what << ": " << file.error().ToString();
  EXPECT_NE(testing::FaultOf(file), testing::kNone) << what;
}

TEST_P(RealFile, EveryTruncationIsRefused) {
  const std::string bytes = ReadBytes(Path(GetParam()));
  MemoryFile memory;
  memory.Set(bytes);
  for (size_t length = bytes.size(); length-- > 0;) {
    memory.Truncate(length);
    const Result<TensorFile> file = Open(memory.path());
    ASSERT_FALSE(file.ok()) << length;
    EXPECT_EQ(file.error().code(), Errc::kCorrupt) << length;
    const uint64_t header_end =
        8 + static_cast<uint8_t>(bytes[0]) + 256u * static_cast<uint8_t>(bytes[1]);
    EXPECT_EQ(testing::FaultOf(file), length < 8            ? "HeaderTooSmall"
                                      : length < header_end ? "InvalidHeaderLength"
                                                            : "MetadataIncompleteBuffer")
        << length;
  }
}

TEST_P(RealFile, EveryFlippedBitIsReadOrRefused) {
  const std::string bytes = ReadBytes(Path(GetParam()));
  MemoryFile memory;
  memory.Set(bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      memory.Write(i, std::string(1, static_cast<char>(bytes[i] ^ (1 << bit))));
      ExpectReadOrRefused(memory.path(),
                          "byte " + std::to_string(i) + " bit " + std::to_string(bit));
    }
    memory.Write(i, bytes.substr(i, 1));
  }
}

INSTANTIATE_TEST_SUITE_P(All, RealFile, ::testing::ValuesIn(Names()),
                         [](const auto& row) { return row.param.substr(0, row.param.find('.')); });

}  // namespace
}  // namespace nxdkit::safetensors
