#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>

#include "lib/system/file.h"
#include "lib/system/folder_lock.h"
#include "lib/system/folders.h"
#include "lib/system/staging.h"
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
using Names = std::vector<std::string>;

constexpr Staging::Options kNew = {};
constexpr Staging::Options kReplace = {.replace = true};
constexpr Staging::Options kResume = {.resume = true};
constexpr Staging::Options kFile = {.folder = false};
constexpr Staging::Options kReplaceFile = {.replace = true, .folder = false};

TEST(StagingOutput, ANameThatLeadsNowhereIsTheCommandLines) {
  const TempFolder folder;
  ASSERT_EQ(::symlink("loop", (folder / "loop").c_str()), 0);
  for (const std::string& output : {folder / "loop", folder / "loop" + "/out"}) {
    ExpectError(Staging::Check(output, kNew), Errc::kUsage, "");
    EXPECT_EQ(Staging::Begin(output, kNew).error().code(), Errc::kUsage) << output;
  }
}

class StagingTest : public ::testing::Test {
 protected:
  // Builds a whole output; "" or the error.
  static std::string Build(const std::string& output, const Staging::Options& options,
                           std::string_view text) {
    Result<Staging> staging = Staging::Begin(output, options);
    if (!staging.ok()) return staging.error().ToString();
    WriteText(options.folder ? staging->path() + "/a" : staging->path(), text);
    if (options.folder) WriteText(staging->path() + "/b", text);
    const Status status = staging->Publish();
    return status.ok() ? "" : status.error().ToString();
  }

  // Runs `body` in a child process and returns its exit code, or 1000 + signal.
  static int InChild(const std::function<int()>& body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body());
    int state = 0;
    ::waitpid(child, &state, 0);
    return WIFSIGNALED(state) ? 1000 + WTERMSIG(state) : WEXITSTATUS(state);
  }

  Names Here() const { return *ListFolder(folder_.path()); }

  TempFolder folder_;
  const std::string output_ = folder_ / "out";
  const std::string partial_ = folder_ / "out.partial";
};

TEST_F(StagingTest, FolderAppearsWhole) {
  {
    Result<Staging> staging = Staging::Begin(output_, kNew);
    ASSERT_TRUE(staging.ok()) << staging.error().ToString();
    EXPECT_EQ(staging->path(), partial_);
    EXPECT_FALSE(staging->resumed());
    std::filesystem::create_directories(staging->path() + "/sub/deep");
    WriteText(staging->path() + "/sub/deep/f", "1");
    EXPECT_FALSE(Exists(output_));
    ASSERT_TRUE(staging->Publish().ok());
  }
  EXPECT_EQ(ReadText(output_ + "/sub/deep/f"), "1");
  EXPECT_EQ(Here(), Names{"out"});
}

TEST_F(StagingTest, FileAppearsWhole) {
  {
    Result<Staging> staging = Staging::Begin(output_, kFile);
    ASSERT_TRUE(staging.ok());
    EXPECT_EQ(staging->path(), partial_ + "/out");
    WriteText(staging->path(), "1");
    ASSERT_TRUE(staging->Publish().ok());
  }
  EXPECT_EQ(ReadText(output_), "1");
  EXPECT_EQ(Here(), Names{"out"});
}

TEST_F(StagingTest, DroppedWithoutPublishLeavesNothing) {
  for (const Staging::Options& options : {kNew, kFile}) {
    Result<Staging> staging = Staging::Begin(output_, options);
    ASSERT_TRUE(staging.ok());
    WriteText(options.folder ? staging->path() + "/x" : staging->path(), "1");
    { Staging moved = std::move(*staging); }
    EXPECT_EQ(Here(), Names{});
  }
}

TEST_F(StagingTest, RemovalDoesNotFollowLinks) {
  std::filesystem::create_directory(folder_ / "precious");
  WriteText(folder_ / "precious/data", "p");
  {
    Result<Staging> staging = Staging::Begin(output_, kNew);
    ASSERT_TRUE(staging.ok());
    std::filesystem::create_directory_symlink(folder_ / "precious", staging->path() + "/link");
  }
  std::filesystem::create_directory(output_);
  std::filesystem::create_directory_symlink(folder_ / "precious", output_ + "/link");
  EXPECT_EQ(Build(output_, kReplace, "new"), "");
  EXPECT_EQ(ReadText(folder_ / "precious/data"), "p");
  EXPECT_EQ(Here(), (Names{"out", "precious"}));
}

TEST_F(StagingTest, NamesOfTheOutput) {
  for (const std::string& name :
       {output_ + "/", output_ + "///", folder_.path() + "/./out", folder_ / "new/parents/./out"}) {
    EXPECT_EQ(Build(name, kNew, "1"), "") << name;
    EXPECT_EQ(ReadText(JoinPath(name, "a")), "1");
    std::filesystem::remove_all(name);
  }
  WriteText(folder_ / "file", "in the way");
  ExpectErrorAt(Staging::Begin(folder_ / "file/out", kNew), Errc::kIo, "Not a directory",
                folder_ / "file/out.partial", std::nullopt);
  ExpectErrorAt(Staging::Begin(folder_ / "file/sub/out", kNew), Errc::kIo, "Not a directory",
                folder_ / "file/sub", std::nullopt);
  ExpectError(Staging::Begin("", kNew), Errc::kUsage, "empty");
  ExpectError(Staging::Begin("/", kNew), Errc::kUsage, "root folder");
}

TEST_F(StagingTest, AnEmptyFolderIsTaken) {
  std::filesystem::create_directory(output_);
  EXPECT_EQ(Build(output_, kNew, "1"), "");
  EXPECT_EQ(ReadText(output_ + "/a"), "1");
}

TEST_F(StagingTest, RefusesWhatIsThere) {
  std::filesystem::create_directory(output_);
  WriteText(output_ + "/kept", "k");
  WriteText(folder_ / "file", "f");
  const Result<Staging> folder = Staging::Begin(output_ + "/", kNew);
  ExpectErrorAt(folder, Errc::kUsage, "not empty (1 entry, kept first)", output_, std::nullopt);
  EXPECT_THAT(folder.error().hint(), ::testing::HasSubstr("--force"));
  ExpectErrorAt(Staging::Begin(folder_ / "file", kFile), Errc::kUsage, "the output exists",
                folder_ / "file", std::nullopt);
  ExpectError(Staging::Begin(folder_ / "file", kNew), Errc::kUsage, "the output exists");
  // Not even with replace: a mistyped file name must not destroy a model folder.
  ExpectError(Staging::Begin(output_, kReplaceFile), Errc::kUsage,
              "is a folder, expected the name");
  ExpectError(Staging::Begin("/dev/null", kReplaceFile), Errc::kUsage, "neither a file nor");
  EXPECT_EQ(Here(), (Names{"file", "out"}));
}

TEST_F(StagingTest, ReplacesInOneStep) {
  ASSERT_EQ(Build(output_, kNew, "old"), "");
  WriteText(output_ + "/only_in_old", "x");
  EXPECT_EQ(Build(output_, kReplace, "new"), "");
  EXPECT_EQ(*ListFolder(output_), (Names{"a", "b"}));
  EXPECT_EQ(ReadText(output_ + "/a"), "new");
  EXPECT_EQ(Here(), Names{"out"});

  ASSERT_EQ(Build(folder_ / "f", kFile, "old"), "");
  EXPECT_EQ(Build(folder_ / "f", kReplaceFile, "new"), "");
  EXPECT_EQ(ReadText(folder_ / "f"), "new");
  EXPECT_EQ(Build(folder_ / "f", kReplace, "folder over file"), "");
  EXPECT_EQ(ReadText(folder_ / "f/a"), "folder over file");
  EXPECT_EQ(Here(), (Names{"f", "out"}));
}

TEST_F(StagingTest, FollowsALinkToTheRealPlace) {
  std::filesystem::create_directory(folder_ / "disk");
  std::filesystem::create_directory_symlink("disk", output_);
  EXPECT_EQ(Build(output_, kNew, "1"), "");
  EXPECT_TRUE(std::filesystem::is_symlink(output_));
  EXPECT_EQ(ReadText(folder_ / "disk/a"), "1");
  EXPECT_EQ(Here(), (Names{"disk", "out"}));
  std::filesystem::create_symlink("nowhere", folder_ / "dangling");
  ExpectError(Staging::Begin(folder_ / "dangling", kNew), Errc::kUsage, "link to nothing");
}

TEST_F(StagingTest, AMountPointIsRefusedBeforeTheWork) {
  std::filesystem::create_directory(output_);
  if (::mount("none", output_.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "cannot mount a tmpfs: " << std::strerror(errno);
  const Result<Staging> staging = Staging::Begin(output_, kReplace);
  ::umount2(output_.c_str(), MNT_DETACH);
  ExpectErrorAt(staging, Errc::kUsage, "is a mount point", output_, std::nullopt);
}

TEST_F(StagingTest, ASecondBuilderIsLockedOut) {
  Result<Staging> staging = Staging::Begin(output_, kNew);
  ASSERT_TRUE(staging.ok());
  WriteText(staging->path() + "/mine", "1");
  ExpectErrorAt(Staging::Begin(output_, kReplace), Errc::kIo, "another process is building",
                partial_, std::nullopt);
  EXPECT_EQ(InChild([&] {
              const Result<Staging> second = Staging::Begin(output_, kResume);
              return second.ok() ? 0 : ExitCode(second.error().code());
            }),
            ExitCode(Errc::kIo));
  EXPECT_EQ(ReadText(staging->path() + "/mine"), "1");
  ASSERT_TRUE(staging->Publish().ok());
  EXPECT_EQ(ReadText(output_ + "/mine"), "1");
}

TEST_F(StagingTest, TheLockIsFreeAfterwards) {
  { ASSERT_TRUE(Staging::Begin(output_, kNew).ok()); }
  EXPECT_EQ(Build(output_, kNew, "1"), "");
  Result<Staging> first = Staging::Begin(output_, kReplace);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(first->Publish().ok());
  EXPECT_EQ(Build(output_, kReplace, "2"), "");  // while the first object is still there
}

TEST_F(StagingTest, ResumeKeepsAndStartClears) {
  for (const bool resume : {true, false}) {
    {
      Result<Staging> staging = Staging::Begin(output_, kNew);
      ASSERT_TRUE(staging.ok());
      std::filesystem::create_directory(staging->path() + "/sub");
      WriteText(staging->path() + "/sub/half", "h");
      staging->Keep();
    }
    Result<Staging> again = Staging::Begin(output_, resume ? kResume : kNew);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->resumed(), resume);
    EXPECT_EQ(ReadText(again->path() + "/sub/half"), resume ? "h" : "(missing)");
  }
  const Result<Staging> fresh = Staging::Begin(output_, kResume);
  ASSERT_TRUE(fresh.ok());
  EXPECT_FALSE(fresh->resumed());
}

TEST_F(StagingTest, AForeignFileInThePlaceOfTheStaging) {
  WriteText(partial_, "not ours");
  ExpectErrorAt(Staging::Begin(output_, kNew), Errc::kIo, "is not a folder", partial_,
                std::nullopt);
  EXPECT_EQ(ReadText(partial_), "not ours");
  std::filesystem::remove(partial_);
  std::filesystem::create_directory(folder_ / "other");
  std::filesystem::create_directory_symlink("other", partial_);
  ExpectErrorAt(Staging::Begin(output_, kNew), Errc::kIo, "is not a folder", partial_,
                std::nullopt);
}

TEST_F(StagingTest, FinishedWorkOutlivesAFailedRename) {
  for (const Staging::Options& options : {kNew, kFile}) {
    Result<Staging> staging = Staging::Begin(output_, options);
    ASSERT_TRUE(staging.ok());
    const std::string built = options.folder ? staging->path() + "/w" : staging->path();
    WriteText(built, "work");
    std::filesystem::create_directory(output_);  // another process was quicker
    WriteText(output_ + "/theirs", "t");
    const Status status = staging->Publish();
    ExpectErrorAt(status, Errc::kIo, "rename", output_, std::nullopt);
    EXPECT_THAT(status.error().hint(), ::testing::HasSubstr(partial_));
    { Staging gone = std::move(*staging); }
    EXPECT_EQ(ReadText(built), "work");
    EXPECT_EQ(ReadText(output_ + "/theirs"), "t");
    std::filesystem::remove_all(output_);
    std::filesystem::remove_all(partial_);
  }
}

TEST_F(StagingTest, AFileThatAppearedMeanwhileIsNotOverwritten) {
  Result<Staging> staging = Staging::Begin(output_, kFile);
  ASSERT_TRUE(staging.ok());
  WriteText(staging->path(), "work");
  WriteText(output_, "theirs");
  ExpectErrorAt(staging->Publish(), Errc::kIo, "File exists", output_, std::nullopt);
  EXPECT_EQ(ReadText(output_), "theirs");
}

enum class KillAt { kBegun, kHalfWritten, kWritten, kPublished };

TEST_F(StagingTest, KilledAnywhereLeavesNoHalfOutput) {
  for (const Staging::Options& options : {kNew, kFile})
    for (const KillAt point :
         {KillAt::kBegun, KillAt::kHalfWritten, KillAt::kWritten, KillAt::kPublished}) {
      const auto child = [&] {
        Result<Staging> staging = Staging::Begin(output_, options);
        if (!staging.ok()) return 1;
        if (point == KillAt::kBegun) ::raise(SIGKILL);
        const std::string file = options.folder ? staging->path() + "/a" : staging->path();
        WriteText(file, "ha");
        if (point == KillAt::kHalfWritten) ::raise(SIGKILL);
        WriteText(file, "half");
        if (point == KillAt::kWritten) ::raise(SIGKILL);
        if (!staging->Publish().ok()) return 2;
        ::raise(SIGKILL);
        return 3;
      };
      ASSERT_EQ(InChild(child), 1000 + SIGKILL);
      const std::string file = options.folder ? output_ + "/a" : output_;
      if (point == KillAt::kPublished) {
        EXPECT_EQ(ReadText(file), "half");
        EXPECT_EQ(Here(), Names{"out"});
        std::filesystem::remove_all(output_);
        continue;
      }
      EXPECT_FALSE(Exists(output_));
      const bool left = point != KillAt::kBegun;
      {
        Result<Staging> resumed = Staging::Begin(
            output_, {.resume = true, .folder = options.folder});  // the dead hold no lock
        ASSERT_TRUE(resumed.ok()) << resumed.error().ToString();
        EXPECT_EQ(resumed->resumed(), left);
        resumed->Keep();
      }
      EXPECT_EQ(Build(output_, options, "whole"), "");
      EXPECT_EQ(ReadText(file), "whole");
      EXPECT_EQ(Here(), Names{"out"});
      std::filesystem::remove_all(output_);
    }
}

// A child replaces the output over and over and is killed at any point: there is always one whole
// version. The pipe reports its progress, so that it is killed while working.
TEST_F(StagingTest, KilledWhileReplacingLeavesOneWholeVersion) {
  ASSERT_EQ(Build(output_, kNew, "0"), "");
  for (int round = 0; round < 20; ++round) {
    int pipe_fds[2];
    ASSERT_EQ(::pipe(pipe_fds), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      for (int version = 1;; ++version) {
        if (!Build(output_, kReplace, std::to_string(round * 1000 + version)).empty()) ::_exit(1);
        if (::write(pipe_fds[1], "x", 1) != 1) ::_exit(2);
      }
    }
    ::close(pipe_fds[1]);
    char byte;
    for (int i = 0; i < 1 + round % 3; ++i) EXPECT_EQ(::read(pipe_fds[0], &byte, 1), 1);
    for (int spin = 0; spin < round * 1000; ++spin) ::getppid();  // some more progress
    ::kill(child, SIGKILL);
    int state = 0;
    ::waitpid(child, &state, 0);
    ::close(pipe_fds[0]);
    ASSERT_TRUE(WIFSIGNALED(state)) << WEXITSTATUS(state);
    EXPECT_EQ(*ListFolder(output_), (Names{"a", "b"}));
    EXPECT_NE(ReadText(output_ + "/a"), "");
    EXPECT_EQ(ReadText(output_ + "/a"), ReadText(output_ + "/b"));
  }
}

// Several processes write the same output at once: each build is either refused as locked, or
// whole.
TEST_F(StagingTest, ContendersTakeTurns) {
  constexpr int kContenders = 3;
  std::vector<pid_t> children;
  for (int i = 0; i < kContenders; ++i) {
    const pid_t child = ::fork();
    if (child > 0) children.push_back(child);
    if (child != 0) continue;
    for (int round = 0; round < 300; ++round) {
      Result<Staging> staging = Staging::Begin(output_, kReplace);
      if (!staging.ok() && staging.error().code() == Errc::kIo) continue;
      if (!staging.ok()) ::_exit(1);
      const std::string mine = std::to_string(i);
      WriteText(staging->path() + "/" + mine, mine);
      if (*ListFolder(staging->path()) != Names{mine}) ::_exit(2);
      if (round % 3 == 0) continue;  // dropped
      const Status published = staging->Publish();
      if (!published.ok()) std::fprintf(stderr, "%s\n", published.error().ToString().c_str());
      if (!published.ok()) ::_exit(3);
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int state = 0;
    ::waitpid(child, &state, 0);
    EXPECT_TRUE(WIFEXITED(state));
    EXPECT_EQ(WEXITSTATUS(state), 0);
  }
  EXPECT_EQ(Here(), Names{"out"});
  EXPECT_EQ(ListFolder(output_)->size(), 1u);
}

// A killed process leaves the old output aside; one that still works there holds a lock.
TEST_F(StagingTest, ReplacingClearsUpAfterTheDeadOnly) {
  ASSERT_EQ(Build(output_, kNew, "0"), "");
  // The last ones have other owners.
  for (const char* name : {"out.old.1-2.partial", "out.old.3-4.partial", "out.old.keep.partial",
                           "out.old.v1.partial", "out.old.5-.partial", "out.old.note"}) {
    std::filesystem::create_directory(folder_ / name);
    WriteText(folder_ / name + "/a", "x");
  }
  WriteText(folder_ / "out.old.5-6.partial", "an output that was a file");
  const Result<FolderLock> busy =
      FolderLock::Try(folder_ / "out.old.3-4.partial", FolderLock::Mode::kExclusive);
  ASSERT_TRUE(busy.ok() && busy->state() == FolderLock::State::kHeld);
  ASSERT_EQ(Build(output_, kReplace, "1"), "");
  EXPECT_EQ(Here(), (Names{"out", "out.old.3-4.partial", "out.old.5-.partial",
                           "out.old.keep.partial", "out.old.note", "out.old.v1.partial"}));
  EXPECT_EQ(ReadText(folder_ / "out.old.3-4.partial" + "/a"), "x");
}

TEST_F(StagingTest, TheOutputIsNeverMissingWhileItIsReplaced) {
  std::filesystem::create_directory(folder_ / "x");
  std::filesystem::create_directory(folder_ / "y");
  if (::renameat2(AT_FDCWD, (folder_ / "x").c_str(), AT_FDCWD, (folder_ / "y").c_str(),
                  RENAME_EXCHANGE) != 0)
    GTEST_SKIP() << "this file system cannot exchange names: " << std::strerror(errno);
  ASSERT_EQ(Build(output_, kNew, "0"), "");
  const int watch = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  ASSERT_GE(::inotify_add_watch(watch, folder_.path().c_str(), IN_MOVE | IN_DELETE), 0);
  ASSERT_EQ(Build(output_, kReplace, "1"), "");

  // By the kernel's record: an exchange adds the new name before it removes the old one.
  alignas(inotify_event) char events[4096];
  const ssize_t bytes = ::read(watch, events, sizeof events);
  ::close(watch);
  int there = 1;
  int arrived = 0;
  for (ssize_t at = 0; at < bytes;) {
    inotify_event event;
    std::memcpy(&event, events + at, sizeof event);
    const char* name = events + at + sizeof event;
    at += static_cast<ssize_t>(sizeof event + event.len);
    if (event.len == 0 || std::strcmp(name, "out") != 0) continue;
    const bool arrives = (event.mask & IN_MOVED_TO) != 0;
    there += arrives ? 1 : -1;
    arrived += arrives ? 1 : 0;
    EXPECT_GE(there, 1) << "the output's name was gone";
  }
  EXPECT_EQ(arrived, 1);
}

TEST_F(StagingTest, TheWorkingFolderCanBeTheOutput) {
  for (const char* name : {".", "./", "../out", "../out/."}) {
    std::filesystem::create_directory(output_);
    EXPECT_EQ(InChild([&] {
                if (::chdir(output_.c_str()) != 0) return 1;
                return Build(name, kNew, "1").empty() ? 0 : 2;
              }),
              0)
        << name;
    EXPECT_EQ(ReadText(output_ + "/a"), "1") << name;
    EXPECT_EQ(Here(), Names{"out"}) << name;
    std::filesystem::remove_all(output_);
  }
}

}  // namespace
}  // namespace nxdkit
