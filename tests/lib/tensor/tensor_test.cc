#include "lib/tensor/tensor.h"

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

using testing_util::ExpectErrorAt;
using testing_util::TempFolder;

struct PackedRow {
  Shape shape;
  Shape strides;
  bool packed;
};

TEST(IsPacked, Table) {
  const PackedRow rows[] = {
      {{}, {}, true},          {{3, 4}, {4, 1}, true}, {{3, 4}, {1, 3}, false},  // transposed
      {{3, 4}, {8, 1}, false},                                                   // rows with gaps
      {{1, 4}, {99, 1}, true},                          // a single row's stride is ignored
      {{3, 1}, {1, 7}, true},  {{0, 4}, {9, 9}, true},  // nothing to be apart
      {{4}, {0}, false},                                // expanded
      {{3, 4}, {4}, false},                             // malformed
  };
  for (const PackedRow& row : rows) {
    StoredTensor tensor;
    tensor.shape = row.shape;
    tensor.strides = row.strides;
    EXPECT_EQ(IsPacked(tensor), row.packed) << ShapeText(row.shape) << ShapeText(row.strides);
  }
}

class FileStorageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing_util::WriteText(path_, "0123456789");
    Result<File> file = File::OpenRead(path_);
    ASSERT_TRUE(file.ok());
    file_ = std::make_shared<const File>(std::move(*file));
  }
  TempFolder folder_;
  const std::string path_ = folder_ / "data";
  std::shared_ptr<const File> file_;
};

TEST_F(FileStorageTest, ReadsItsPart) {
  const auto storage = FileStorage(file_, 3, 4);
  file_.reset();  // the storage keeps the file open
  std::string text(2, ' ');
  ASSERT_TRUE(storage->ReadAt(2, std::as_writable_bytes(std::span(text))).ok());
  EXPECT_EQ(text, "56");
  EXPECT_EQ(storage->bytes(), 4u);
  EXPECT_EQ(storage->file_offset(), 3u);
  EXPECT_EQ(storage->path(), path_);
}

TEST_F(FileStorageTest, RefusesWhatIsOutside) {
  const auto storage = FileStorage(file_, 3, 4);
  std::string text(2, ' ');
  const auto to = std::as_writable_bytes(std::span(text));
  testing_util::ExpectError(storage->ReadAt(3, to), Errc::kCorrupt,
                            "2 bytes at offset 3 of a storage of 4 bytes");
  testing_util::ExpectError(storage->ReadAt(UINT64_MAX, to), Errc::kCorrupt, "of 4 bytes");
}

TEST_F(FileStorageTest, AStoragePastTheEndOfTheFileReadsShort) {
  const auto storage = FileStorage(file_, 8, 100);
  std::string text(4, ' ');
  ExpectErrorAt(storage->ReadAt(0, std::as_writable_bytes(std::span(text))), Errc::kCorrupt,
                "ends after 2 of the 4 bytes", path_, 8);
}

}  // namespace
}  // namespace nxdkit
