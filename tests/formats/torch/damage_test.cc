// Every good file of testdata/torch, cut off at every byte, and with every byte changed: read or
// refused, nothing worse, and a refusal names the file.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "formats/torch/archive.h"
#include "tests/formats/scratch.h"
#include "tests/formats/torch/archive_io.h"
#include "tests/formats/torch/memory_file.h"

namespace nxdkit::torch {
namespace {

std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(NXDKIT_TESTDATA "/torch"))
    if (entry.path().extension() == ".pt" &&
        !entry.path().filename().string().starts_with("refused"))
      files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

// True when the file is read; also reads every tensor then.
bool Reads(const MemoryFile& memory, std::string_view bytes, bool check_crc) {
  memory.Replace(bytes);
  const std::string path = memory.path();
  const Result<Archive> archive = ReadArchive(path, {.check_crc = check_crc});
  if (!archive.ok()) {
    EXPECT_TRUE(archive.error().code() == Errc::kCorrupt ||
                archive.error().code() == Errc::kUnsupported)
        << archive.error().ToString();
    EXPECT_EQ(archive.error().file(), path);
    EXPECT_NE(archive.error().message(), "");
    return false;
  }
  for (const StoredTensor& tensor : archive->tensors) {
    if (ElementCount(tensor.shape).value() > 10000) continue;  // a damaged shape with stride 0
    const Result<std::string> data = LogicalBytes(tensor);
    if (data.ok()) continue;
    EXPECT_EQ(data.error().code(), Errc::kCorrupt) << data.error().ToString();
  }
  (void)FlattenStateDict(*archive);
  return true;
}

TEST(Damage, CutOffAnywhereIsRefused) {
  const MemoryFile memory;
  ASSERT_GE(Files().size(), 30u);
  for (const std::filesystem::path& file : Files()) {
    const std::string bytes = testing_util::ReadBytes(file.string());
    const bool junk_at_the_end = file.filename() == "odd.pt";
    if (file.filename() == "tar.pt") continue;
    for (size_t size = 0; size < bytes.size() - (junk_at_the_end ? 100 : 0); ++size)
      ASSERT_FALSE(Reads(memory, bytes.substr(0, size), false)) << file << " cut at " << size;
  }
}

TEST(Damage, ChangedBytesNeverDoWorse) {
  const MemoryFile memory;
  for (const std::filesystem::path& file : Files()) {
    const std::string bytes = testing_util::ReadBytes(file.string());
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
      Reads(memory, changed, false);
    }
  }
}

// With its CRCs, an archive reveals every change of a record's data.
TEST(Damage, ChangedDataIsSeenByItsCrc) {
  const MemoryFile memory;
  const std::string bytes = testing_util::ReadBytes(NXDKIT_TESTDATA "/torch/torch-2.15/dtypes.pt");
  const Result<Archive> good = ReadArchive(NXDKIT_TESTDATA "/torch/torch-2.15/dtypes.pt");
  ASSERT_TRUE(good.ok());
  size_t flips = 0;
  for (const StoredTensor& tensor : good->tensors) {
    for (uint64_t i = 0; i < tensor.storage->bytes(); ++i, ++flips) {
      std::string changed = bytes;
      changed[tensor.storage->file_offset() + i] ^= 1;
      ASSERT_FALSE(Reads(memory, changed, true)) << flips;
      ASSERT_TRUE(Reads(memory, changed, false)) << flips;
    }
  }
  EXPECT_GE(flips, 400u);
}

}  // namespace
}  // namespace nxdkit::torch
