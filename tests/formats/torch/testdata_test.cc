// Files of real torch versions, compared with the contents that those versions reported
// (testdata/torch/make.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/torch/archive.h"
#include "lib/json/json.h"
#include "tests/formats/torch/archive_io.h"

namespace nxdkit::torch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Path(const std::string& name) { return NXDKIT_TESTDATA "/torch/" + name; }

Archive Read(const std::string& name) {
  Result<Archive> archive = ReadArchive(Path(name), {.check_crc = true});
  EXPECT_TRUE(archive.ok()) << archive.error().ToString();
  return std::move(*archive);
}

class TorchVersion : public testing::TestWithParam<const char*> {
 protected:
  std::string folder() const { return GetParam(); }
};

TEST_P(TorchVersion, EveryFileIsReadAsTorchReadsIt) {
  const Json expect = ReadJsonFile(Path(folder() + "/expect.json"), 1 << 20).value();
  size_t values = 0;
  for (const auto& [name, file] : expect["files"].items()) {
    const std::string path = Path(folder() + "/" + name);
    EXPECT_EQ(*LooksLikeArchive(path), name != "tar.pt") << name;
    const Result<Archive> archive = ReadArchive(path, {.check_crc = true});
    if (file.contains("error")) {
      ASSERT_FALSE(archive.ok()) << name;
      EXPECT_EQ(ErrcName(archive.error().code()), file["error"]) << name;
      EXPECT_THAT(archive.error().message(), HasSubstr(file["says"].get<std::string>())) << name;
      EXPECT_TRUE(archive.error().offset().has_value()) << archive.error().ToString();
      EXPECT_EQ(archive.error().file(), path);
      continue;
    }
    ASSERT_TRUE(archive.ok()) << archive.error().ToString();
    EXPECT_EQ(ParseJson(JsonOf(*archive).value()).value(), file["value"]) << name;
    ++values;
  }
  EXPECT_GE(values, 4u);
}

INSTANTIATE_TEST_SUITE_P(All, TorchVersion,
                         testing::Values("torch-1.13", "torch-2.15", "handmade"));

TEST(Testdata, ViewsShareTheirStorageAndKeepTheirStrides) {
  for (const char* name : {"torch-1.13/views.pt", "torch-2.15/views.pt", "torch-2.15/legacy.pt"}) {
    const Archive archive = Read(name);
    const auto tensor = [&](const char* key) -> const StoredTensor& {
      return archive.tensors.at(archive.root.Find(key)->tensor()->index);
    };
    const StoredTensor& base = tensor("base");
    EXPECT_EQ(base.storage->bytes(), 24u * 4);
    EXPECT_EQ(tensor("transposed").storage, base.storage);
    EXPECT_THAT(tensor("transposed").strides, ElementsAre(1, 6));
    EXPECT_EQ(tensor("block").offset, 4u * (1 * 6 + 2));
    EXPECT_THAT(tensor("column_major").strides, ElementsAre(1, 2));
    EXPECT_FALSE(IsPacked(tensor("column_major")));
    EXPECT_THAT(tensor("expanded").strides, ElementsAre(0, 0));
    EXPECT_THAT(tensor("scalar").shape, ElementsAre());
    // One Python object twice is one tensor; "tied" is the object "base".
    EXPECT_EQ(archive.root.Find("tied")->tensor()->index,
              archive.root.Find("base")->tensor()->index);
  }
}

TEST(Testdata, NamesTheForm) {
  EXPECT_EQ(Read("torch-2.15/bare.pt").format, "torch zip");
  EXPECT_EQ(Read("torch-2.15/bare.pt").version, "3\n");
  EXPECT_EQ(Read("torch-2.15/bare.pt").file_bytes, 1556u);
  EXPECT_EQ(Read("torch-1.13/legacy.pt").format, "torch legacy");
  EXPECT_EQ(Read("torch-1.13/legacy.pt").version, "");
}

TEST(Testdata, CountsRecordsWithoutCrc) {
  const Archive archive = Read("torch-2.15/without_crc.pt");
  EXPECT_THAT(archive.warnings,
              ElementsAre(HasSubstr("7 of 7 records have no checksum (CRC 0)")));
}

TEST(Testdata, BigEndianTensorsSayso) {
  for (const StoredTensor& tensor : Read("handmade/big_endian.pt").tensors)
    EXPECT_TRUE(tensor.big_endian);
  for (const StoredTensor& tensor : Read("torch-2.15/dtypes.pt").tensors)
    EXPECT_FALSE(tensor.big_endian);
}

TEST(Testdata, MissingFileIsNotFound) {
  const Result<Archive> archive = ReadArchive(Path("none.pt"));
  ASSERT_FALSE(archive.ok());
  EXPECT_EQ(archive.error().code(), Errc::kNotFound);
  EXPECT_FALSE(*LooksLikeArchive(Path("none.pt")));
  EXPECT_FALSE(*LooksLikeArchive(Path("make.py")));
}

}  // namespace
}  // namespace nxdkit::torch
