#include "lib/system/folder_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "tests/lib/expect_error.h"
#include "tests/lib/leases.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

using testing_util::ExpectError;
using testing_util::TempFolder;
using testing_util::WriteText;
using Mode = FolderLock::Mode;
using State = FolderLock::State;

State TryState(const std::string& path, Mode mode) {
  const Result<FolderLock> lock = FolderLock::Try(path, mode);
  EXPECT_TRUE(lock.ok()) << lock.error().ToString();
  return lock.ok() ? lock->state() : State::kUnsupported;
}

TEST(FolderLock, ReadersShareAndAWriterIsAlone) {
  const TempFolder folder;
  {
    const Result<FolderLock> reader = FolderLock::Try(folder.path(), Mode::kShared);
    ASSERT_TRUE(reader.ok()) << reader.error().ToString();
    EXPECT_EQ(reader->state(), State::kHeld);
    EXPECT_EQ(TryState(folder.path(), Mode::kShared), State::kHeld);
    EXPECT_EQ(TryState(folder.path(), Mode::kExclusive), State::kBusy);
  }
  const Result<FolderLock> writer = FolderLock::Try(folder.path(), Mode::kExclusive);
  ASSERT_TRUE(writer.ok()) << writer.error().ToString();
  EXPECT_EQ(writer->state(), State::kHeld);
  EXPECT_EQ(TryState(folder.path(), Mode::kShared), State::kBusy);
}

TEST(FolderLock, IsReleasedByHand) {
  const TempFolder folder;
  Result<FolderLock> writer = FolderLock::Try(folder.path(), Mode::kExclusive);
  ASSERT_TRUE(writer.ok()) << writer.error().ToString();
  writer->Release();
  EXPECT_EQ(TryState(folder.path(), Mode::kExclusive), State::kHeld);
}

TEST(FolderLock, TellsWhetherAPathStillLeadsThere) {
  const TempFolder folder;
  const std::string a = folder / "a";
  const std::string b = folder / "b";
  const std::string link = folder / "link";
  std::filesystem::create_directory(a);
  std::filesystem::create_directory(b);
  std::filesystem::create_directory_symlink("a", link);
  const Result<FolderLock> lock = FolderLock::Try(link, Mode::kShared);
  ASSERT_TRUE(lock.ok()) << lock.error().ToString();
  EXPECT_TRUE(lock->IsAt(link));
  EXPECT_TRUE(lock->IsAt(a));
  std::filesystem::remove(link);
  EXPECT_FALSE(lock->IsAt(link));
  std::filesystem::create_directory_symlink("b", link);
  EXPECT_FALSE(lock->IsAt(link));
}

TEST(FolderLock, AMissingFolderIsNotFound) {
  const TempFolder folder;
  ExpectError(FolderLock::Try(folder / "none", Mode::kShared), Errc::kNotFound, "open");
}

InUse Ask(const std::string& path) {
  const Result<InUse> in_use = AskInUse(path);
  EXPECT_TRUE(in_use.ok()) << in_use.error().ToString();
  return in_use.ok() ? *in_use : InUse::kUnknown;
}

TEST(AskInUse, AnOpenFileIsInUse) {
  const TempFolder folder;
  const std::string path = folder / "file";
  WriteText(path, "text");
  if (!testing_util::HasLeases(path)) GTEST_SKIP() << "no leases on this file system";
  EXPECT_EQ(Ask(path), InUse::kNo);
  {
    const Result<File> reader = File::OpenRead(path);
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(Ask(path), InUse::kYes);
  }
  EXPECT_EQ(Ask(path), InUse::kNo);
}

// As safetensors does it: the descriptor is closed, the mapping lives on.
TEST(AskInUse, AMappedFileIsInUse) {
  const TempFolder folder;
  const std::string path = folder / "file";
  WriteText(path, std::string(8192, 'x'));
  if (!testing_util::HasLeases(path)) GTEST_SKIP() << "no leases on this file system";
  const int fd = ::open(path.c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  void* map = ::mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
  ASSERT_NE(map, MAP_FAILED);
  ::close(fd);
  EXPECT_EQ(Ask(path), InUse::kYes);
  ::munmap(map, 8192);
  EXPECT_EQ(Ask(path), InUse::kNo);
}

TEST(AskInUse, AMissingFileIsNotFound) {
  const TempFolder folder;
  ExpectError(AskInUse(folder / "none"), Errc::kNotFound, "open");
}

}  // namespace
}  // namespace nxdkit
