#include "lib/system/file.h"
#include "lib/system/folders.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

using testing_util::Exists;
using testing_util::ExpectError;
using testing_util::ExpectErrorAt;
using testing_util::ReadText;
using testing_util::TempFolder;
using testing_util::WriteText;

std::span<std::byte> To(std::string& text) { return std::as_writable_bytes(std::span(text)); }
std::span<const std::byte> From(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(OpenRead, MissingFile) {
  const TempFolder folder;
  ExpectErrorAt(File::OpenRead(folder / "x"), Errc::kNotFound, "cannot open: No such file",
                folder / "x", std::nullopt);
}

// Must return at once: nobody writes to the FIFO.
TEST(OpenRead, RefusesAllButRegularFiles) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder / "socket").c_str(), sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::pair<std::string, const char*> rows[] = {
      {folder / "fifo", "is a FIFO, expected a regular file"},
      {folder / "socket", "is a socket, expected a regular file"},
      {folder.path(), "is a folder, expected a regular file"},
      {"/dev/null", "is a character device, expected a regular file"}};
  for (const auto& [path, part] : rows) {
    ExpectErrorAt(File::OpenRead(path), Errc::kUnsupported, part, path, std::nullopt);
    ExpectErrorAt(File::OpenWrite(path), Errc::kUnsupported, part, path, std::nullopt);
    ExpectErrorAt(ReadSmallFile(path, 100), Errc::kUnsupported, part, path, std::nullopt);
  }
  ::close(fd);
}

TEST(File, ReadsAtAnyPlace) {
  const TempFolder folder;
  WriteText(folder / "x", "0123456789");
  const Result<File> file = File::OpenRead(folder / "x");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->bytes(), 10u);
  EXPECT_EQ(::fcntl(file->fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(file->fd(), F_GETFD) & FD_CLOEXEC, 0);
  std::string text(4, ' ');
  ASSERT_TRUE(file->ReadAt(6, To(text)).ok());
  EXPECT_EQ(text, "6789");
  ASSERT_TRUE(file->ReadAt(1000, {}).ok());  // an empty read is valid anywhere
}

TEST(File, ShortFileSaysWhereAndHowMuch) {
  const TempFolder folder;
  WriteText(folder / "x", "0123456789");
  const Result<File> file = File::OpenRead(folder / "x");
  ASSERT_TRUE(file.ok());
  std::string text(5, ' ');
  const char* part = "the file ends after 3 of the 5 bytes expected here";
  ExpectErrorAt(file->ReadAt(7, To(text)), Errc::kCorrupt, part, folder / "x", 7);
  part = "the file ends after 0 of the 5 bytes";
  for (const uint64_t offset : {uint64_t{10}, uint64_t{1} << 40, uint64_t{1} << 63, UINT64_MAX - 1})
    ExpectErrorAt(file->ReadAt(offset, To(text)), Errc::kCorrupt, part, folder / "x", offset);
}

// A part of a file has offsets of its own, and errors have those of the file.
TEST(FileView, ReadsItsPartAndNoMore) {
  const TempFolder folder;
  WriteText(folder / "x", "0123456789");
  const Result<File> file = File::OpenRead(folder / "x");
  ASSERT_TRUE(file.ok());
  const FileView view(*file, 3, 4);
  EXPECT_EQ(view.bytes(), 4u);
  std::string text(2, ' ');
  ASSERT_TRUE(view.ReadAt(2, To(text)).ok());
  EXPECT_EQ(text, "56");
  ExpectErrorAt(view.ReadAt(3, To(text)), Errc::kCorrupt,
                "the file ends after 1 of the 2 bytes expected here", folder / "x", 6);
  ExpectErrorAt(view.ReadAt(UINT64_MAX - 1, To(text)), Errc::kCorrupt,
                "the file ends after 0 of the 2 bytes", folder / "x", 7);
}

TEST(File, ReadErrorIsIo) {
  const TempFolder folder;
  WriteText(folder / "x", "0123456789");
  Result<File> file = File::OpenRead(folder / "x");
  ASSERT_TRUE(file.ok());
  ExpectErrorAt(file->WriteAt(3, From("abc")), Errc::kIo,
                "cannot write 3 bytes: Bad file descriptor", folder / "x", 3);
  ExpectErrorAt(file->WriteAt(UINT64_MAX, From("abc")), Errc::kIo, "File too large", folder / "x",
                UINT64_MAX);
  ASSERT_TRUE(file->Close().ok());
  EXPECT_FALSE(file->is_open());
  std::string text(5, ' ');
  ExpectErrorAt(file->ReadAt(2, To(text)), Errc::kIo, "cannot read 5 bytes", folder / "x", 2);
  EXPECT_TRUE(file->Close().ok());  // closing twice is harmless
}

TEST(OpenWrite, KeepsWhatIsThere) {
  const TempFolder folder;
  const ::mode_t mask = ::umask(027);
  Result<File> file = File::OpenWrite(folder / "x");
  ::umask(mask);
  ASSERT_TRUE(file.ok());
  struct stat info;
  ASSERT_EQ(::stat((folder / "x").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  ASSERT_TRUE(file->WriteAt(0, From("hello world")).ok());
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(file->Close().ok());
  file = File::OpenWrite(folder / "x");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->bytes(), 11u);
  ASSERT_TRUE(file->WriteAt(6, From("there")).ok());
  EXPECT_EQ(ReadText(folder / "x"), "hello there");
  ExpectErrorAt(File::OpenWrite(folder / "no/x"), Errc::kIo, "cannot open for writing",
                folder / "no/x", std::nullopt);
}

TEST(File, ManyThreadsWriteOneFile) {
  const TempFolder folder;
  Result<File> file = File::OpenWrite(folder / "x");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Allocate(4 * 1000).ok());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&file, t] {
      for (size_t i = t; i < 1000; i += 4) EXPECT_TRUE(file->WriteAt(4 * i, From("abcd")).ok());
    });
  for (std::thread& thread : threads) thread.join();
  std::string expected;
  for (int i = 0; i < 1000; ++i) expected += "abcd";
  EXPECT_EQ(ReadText(folder / "x"), expected);
}

TEST(File, MovesLeaveNothingOpen) {
  const TempFolder folder;
  WriteText(folder / "x", "1");
  File a = *File::OpenRead(folder / "x");
  const int fd = a.fd();
  File b = std::move(a);
  EXPECT_FALSE(a.is_open());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(b.fd(), fd);
  b = *File::OpenRead(folder / "x");
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);  // the assigned-over one was closed
  EXPECT_TRUE(b.is_open());
}

TEST(Allocate, SetsTheSizeBothWays) {
  const TempFolder folder;
  const Result<File> file = File::OpenWrite(folder / "x");
  ASSERT_TRUE(file.ok());
  struct stat info;
  for (const off_t bytes : {100'000, 5, 0, 7}) {
    ASSERT_TRUE(file->Allocate(static_cast<uint64_t>(bytes)).ok()) << bytes;
    ASSERT_EQ(::fstat(file->fd(), &info), 0);
    EXPECT_EQ(info.st_size, bytes);
  }
  ASSERT_TRUE(file->Allocate(1 << 20).ok());
  ASSERT_EQ(::fstat(file->fd(), &info), 0);
  EXPECT_GE(info.st_blocks * 512, 1 << 20);  // reserved, not a hole
}

TEST(Allocate, TooLarge) {
  const TempFolder folder;
  const Result<File> file = File::OpenWrite(folder / "x");
  ASSERT_TRUE(file.ok());
  ExpectErrorAt(file->Allocate(UINT64_MAX), Errc::kIo, "reserve 18446744073709551615 bytes",
                folder / "x", std::nullopt);
  EXPECT_EQ(ReadText(folder / "x"), "");
}

// A tmpfs of 64 KiB, removed with the test.
class FullDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::mount("none", folder_.path().c_str(), "tmpfs", 0, "size=64k") != 0)
      GTEST_SKIP() << "cannot mount a small tmpfs: " << std::strerror(errno);
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  TempFolder folder_;
  bool mounted_ = false;
};

TEST_F(FullDisk, AllocateSaysWhatWasAskedAndWhatIsThere) {
  const Result<File> file = File::OpenWrite(folder_ / "x");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->WriteAt(0, From("kept")).ok());
  const Status status = file->Allocate(1 << 20);
  const std::optional<Error> error = ExpectError(
      status, Errc::kIo, "cannot reserve 1048576 bytes (61440 bytes are available): No space left");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), folder_ / "x");
  EXPECT_THAT(error->hint(), ::testing::HasSubstr("free some space"));
  EXPECT_EQ(ReadText(folder_ / "x"), "kept");  // size as it was
  EXPECT_TRUE(file->Allocate(32 << 10).ok());  // and the space was given back
}

TEST_F(FullDisk, WriteFailsAtAnOffset) {
  const Result<File> file = File::OpenWrite(folder_ / "x");
  ASSERT_TRUE(file.ok());
  const std::string big(128 << 10, 'x');
  ExpectErrorAt(file->WriteAt(0, From(big)), Errc::kIo, "cannot write 131072 bytes: No space left",
                folder_ / "x", 64 << 10);
}

TEST_F(FullDisk, AtomicWriteLeavesTheOldFile) {
  WriteText(folder_ / "x", "old");
  const Status status = WriteFileAtomic(folder_ / "x", std::string(128 << 10, 'n'));
  ExpectError(status, Errc::kIo, "No space left");
  EXPECT_EQ(ReadText(folder_ / "x"), "old");
  EXPECT_EQ(*ListFolder(folder_.path()), std::vector<std::string>{"x"});
}

TEST(OpenTemporary, HasNoName) {
  const TempFolder folder;
  ::setenv("TMPDIR", folder.path().c_str(), 1);
  const Result<File> file = File::OpenTemporary();
  ::unsetenv("TMPDIR");
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_TRUE(ListFolder(folder.path())->empty());
  ASSERT_TRUE(file->WriteAt(5, From("abc")).ok());
  std::string text(3, ' ');
  ASSERT_TRUE(file->ReadAt(5, To(text)).ok());
  EXPECT_EQ(text, "abc");
}

TEST(ReadSmallFile, BoundedByTheCaller) {
  const TempFolder folder;
  WriteText(folder / "x", std::string("a\0b", 3));
  EXPECT_EQ(*ReadSmallFile(folder / "x", 3), std::string("a\0b", 3));
  ExpectErrorAt(ReadSmallFile(folder / "x", 2), Errc::kCorrupt,
                "file of 3 bytes is over the limit of 2", folder / "x", std::nullopt);
}

TEST(WriteFileAtomic, ReplacesWhole) {
  const TempFolder folder;
  WriteText(folder / "x", "a longer old text");
  ASSERT_TRUE(WriteFileAtomic(folder / "x", "new").ok());
  EXPECT_EQ(ReadText(folder / "x"), "new");
  EXPECT_EQ(*ListFolder(folder.path()), std::vector<std::string>{"x"});
}

TEST(WriteFileAtomic, FailureLeavesNothing) {
  const TempFolder folder;
  ExpectError(WriteFileAtomic(folder / "no/x", "t"), Errc::kIo, "open for writing");
  std::filesystem::create_directories(folder / "d/sub");
  const Status status = WriteFileAtomic(folder / "d", "t");  // a folder is in the way
  ExpectErrorAt(status, Errc::kIo, "rename", folder / "d", std::nullopt);
  EXPECT_EQ(*ListFolder(folder.path()), std::vector<std::string>{"d"});
}

}  // namespace
}  // namespace nxdkit
