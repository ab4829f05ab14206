// The slots of a bundle's weights: the switch, the locks, and the states that a kill leaves.
#include "formats/rollout/weight_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "formats/rollout/foreign_files.h"
#include "tests/formats/rollout/slots.h"
#include "tests/lib/expect_error.h"
#include "tests/lib/leases.h"

namespace nxdkit::rollout {
namespace {

using ::testing::ElementsAre;
using testing_util::ExpectError;
using testing_util::ReadBytes;
using testing_util::Scratch;

using SlotUpdateTest = Slots;
using PinTest = Slots;

TEST_F(SlotUpdateTest, TheFirstOneMakesAPlainFolderASlot) {
  for (const bool sync : {false, true}) {
    Refresh("new", sync);
    EXPECT_EQ(Read(), "new");
  }
  EXPECT_EQ(Current(), ".weights.0");
  EXPECT_EQ(Names(),
            (std::set<std::string>{".weights.0", ".weights.1", ".weights.lock", "weights"}));
}

TEST_F(SlotUpdateTest, TheOldVersionStaysUntilTheSwitch) {
  const std::unique_ptr<SlotUpdate> update = Begin();
  ASSERT_NE(update, nullptr);
  Fill(*update, "new");
  EXPECT_EQ(Read(), "old 0");
  EXPECT_TRUE(fs::exists(update->path() + "/.incomplete"));
  ASSERT_TRUE(update->Publish().ok());
  EXPECT_EQ(Read(), "new");
  EXPECT_FALSE(fs::exists(update->path() + "/.incomplete"));
  EXPECT_EQ(ReadBytes(Slot(0) + "/tp0"), "old 0") << "the version before stays readable";
}

TEST_F(SlotUpdateTest, LaterOnesOverwriteTheSameFiles) {
  Refresh("one");
  Refresh("two");
  const ino_t before = [&] {
    struct stat info;
    EXPECT_EQ(::stat((Slot(1) + "/tp0").c_str(), &info), 0);
    return info.st_ino;
  }();
  const std::unique_ptr<SlotUpdate> update = Begin();
  ASSERT_NE(update, nullptr);
  EXPECT_TRUE(update->reused());
  EXPECT_EQ(update->path(), Slot(1));
  Fill(*update, "three");
  ASSERT_TRUE(update->Publish().ok());
  struct stat after;
  ASSERT_EQ(::stat((weights_ + "/tp0").c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before);
  EXPECT_EQ(Read(), "three");
}

TEST_F(SlotUpdateTest, ASlotThatAReaderHoldsIsLeftAlone) {
  Refresh("one");
  const Result<PinnedWeights> reader = PinWeights(weights_);
  ASSERT_TRUE(reader.ok()) << reader.error().ToString();
  Refresh("two");
  Refresh("three");
  EXPECT_EQ(Current(), ".weights.2");
  EXPECT_EQ(ReadBytes(reader->folder + "/tp0"), "one");
  EXPECT_EQ(ReadBytes(reader->folder + "/tp1"), "one");
}

// An engine that does not use our locks: its open files are not overwritten, and the other files of
// that slot can still be opened when others of that age are removed.
TEST_F(SlotUpdateTest, ASlotWithAnOpenFileIsLeftAlone) {
  Refresh("one");
  const Result<File> engine = File::OpenRead(weights_ + "/tp1");
  ASSERT_TRUE(engine.ok());
  if (!testing_util::HasLeases(weights_ + "/tp1")) GTEST_SKIP() << "no leases on this file system";
  const std::string slot = scratch_.Path(Current());
  for (const char* text : {"two", "three", "four"}) Refresh(text);
  std::string seen(3, ' ');
  ASSERT_TRUE(engine->ReadAt(0, std::as_writable_bytes(std::span(seen))).ok());
  EXPECT_EQ(seen, "one");
  EXPECT_EQ(ReadBytes(slot + "/tp0"), "one");
}

TEST_F(SlotUpdateTest, ASlotGoesWhenItsOpenFileIsClosed) {
  Refresh("one");
  {
    const Result<File> engine = File::OpenRead(weights_ + "/tp1");
    ASSERT_TRUE(engine.ok());
    Refresh("two");
    Refresh("three");
  }
  Refresh("four");
  EXPECT_EQ(Names().size(), 4u);  // two slots, the lock and the link
  EXPECT_EQ(Read(), "four");
}

TEST_F(SlotUpdateTest, OlderSlotsGoWhenTheirReaderDoes) {
  Refresh("one");
  {
    const Result<PinnedWeights> reader = PinWeights(weights_);
    ASSERT_TRUE(reader.ok());
    Refresh("two");
    Refresh("three");
    EXPECT_EQ(Names().size(), 5u);  // three slots, the lock and the link
  }
  Refresh("four");
  EXPECT_EQ(Names().size(), 4u);
  EXPECT_EQ(Read(), "four");
}

TEST_F(SlotUpdateTest, ASecondWriterIsToldWhoTheFirstIs) {
  const std::unique_ptr<SlotUpdate> first = Begin();
  ASSERT_NE(first, nullptr);
  const auto error =
      ExpectError(SlotUpdate::Begin(weights_, {}), Errc::kIo,
                  "another process is refreshing this bundle (pid " + std::to_string(getpid()));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), scratch_.folder());
}

// Locks like `flock -s .weights.lock engine`.
TEST_F(SlotUpdateTest, AReaderCanKeepRefreshesAway) {
  Refresh("one");
  const Result<File> engine = File::OpenRead(scratch_.Path(".weights.lock"));
  ASSERT_TRUE(engine.ok()) << engine.error().ToString();
  ASSERT_EQ(::flock(engine->fd(), LOCK_SH | LOCK_NB), 0);
  const auto error = ExpectError(SlotUpdate::Begin(weights_, {}), Errc::kIo,
                                 "another process keeps refreshes away, to load the weights");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), scratch_.Path(".weights.lock"));
}

TEST_F(SlotUpdateTest, UnpublishedNewSlotsAreRemoved) {
  const std::string path = [&] {
    const std::unique_ptr<SlotUpdate> update = Begin();
    Fill(*update, "half");
    return update->path();
  }();
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(Read(), "old 0");
}

TEST_F(SlotUpdateTest, UnpublishedOldSlotsStayMarked) {
  Refresh("one");
  Refresh("two");
  Fill(*Begin(), "half");
  EXPECT_EQ(Read(), "two");
  EXPECT_TRUE(fs::exists(Slot(1) + "/.incomplete"));
  Refresh("three");
  EXPECT_EQ(Read(), "three");
  EXPECT_FALSE(fs::exists(Slot(1) + "/.incomplete"));
}

TEST_F(SlotUpdateTest, WhatDoesNotBelongIntoTheSlotGoes) {
  Refresh("one");
  Refresh("two");
  scratch_.Write(".weights.1/tp2", "of a wider bundle");
  fs::create_directory(Slot(1) + "/folder");
  Refresh("three");
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(weights_))
    names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{"tp0", "tp1"}));
}

// --- files next to the weights

TEST_F(SlotUpdateTest, ForeignFilesStay) {
  fs::create_directories(weights_ + "/notes/empty");
  scratch_.Write("weights/notes/a.txt", "a");
  scratch_.Write("weights/extra.txt", "mine");
  fs::create_symlink("../elsewhere", weights_ + "/link");
  for (const bool sync : {false, true, false, false}) {
    Refresh("new", sync);
    EXPECT_EQ(ReadBytes(weights_ + "/notes/a.txt"), "a");
    EXPECT_TRUE(fs::is_directory(weights_ + "/notes/empty"));
    EXPECT_EQ(ReadBytes(weights_ + "/extra.txt"), "mine");
    EXPECT_EQ(fs::read_symlink(weights_ + "/link"), "../elsewhere");
  }
}

unsigned ModeOf(const std::string& path) {
  struct stat info;
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

// A private file stays private, a program stays executable, whatever the umask.
TEST_F(SlotUpdateTest, ForeignFilesKeepTheirModes) {
  fs::create_directories(weights_ + "/closed/inner");
  fs::create_directory(weights_ + "/shared");
  const std::map<std::string, unsigned> modes = {{"closed/inner/key", 0400},
                                                 {"closed/inner", 0700},
                                                 {"closed", 0500},
                                                 {"token", 0600},
                                                 {"tool", 0755},
                                                 {"group", 0664},
                                                 {"shared", 01777},
                                                 {"own", 04711}};
  for (const char* name : {"closed/inner/key", "token", "tool", "group", "own"})
    scratch_.Write(std::string("weights/") + name, name);
  for (const char* name :
       {"closed/inner/key", "closed/inner", "closed", "token", "tool", "group", "shared", "own"})
    ASSERT_EQ(::chmod((weights_ + "/" + name).c_str(), modes.at(name)), 0) << name;
  const mode_t before = ::umask(027);
  for (const bool sync : {false, true, false}) {
    Refresh("new", sync);
    for (const auto& [name, mode] : modes) EXPECT_EQ(ModeOf(weights_ + "/" + name), mode) << name;
  }
  ::umask(before);
  EXPECT_EQ(ReadBytes(weights_ + "/closed/inner/key"), "closed/inner/key");
  for (const int slot : {0, 1})  // to let the test's folder be removed
    EXPECT_EQ(::chmod((Slot(slot) + "/closed").c_str(), 0700), 0);
}

// The files of the current version: files changed or removed there do not come back.
TEST_F(SlotUpdateTest, ForeignFilesAreThoseOfTheCurrentVersion) {
  scratch_.Write("weights/a", "one");
  scratch_.Write("weights/b", "one");
  Refresh("one");
  scratch_.Write("weights/a", "two");
  fs::remove(weights_ + "/b");
  Refresh("two");
  Refresh("three");
  EXPECT_EQ(ReadBytes(weights_ + "/a"), "two");
  EXPECT_FALSE(fs::exists(weights_ + "/b"));
}

TEST_F(SlotUpdateTest, ForeignFilesThatCannotBeKeptAreRefusedByName) {
  const auto refused = [&](const std::string& name, const std::string& part) {
    const SlotUpdate::Options options{.files = {"tp0", "tp1"}};
    const auto begun = ExpectError(SlotUpdate::Begin(weights_, options), Errc::kUnsupported, part);
    const auto checked =
        ExpectError(SlotUpdate::CheckForeign(weights_, options), Errc::kUnsupported, part);
    ASSERT_TRUE(begun && checked);
    EXPECT_EQ(begun->file(), weights_ + "/" + name);
    EXPECT_EQ(checked->file(), weights_ + "/" + name);
    EXPECT_EQ(Names(), (std::set<std::string>{".weights.lock", "weights"}));
  };
  fs::create_directory(weights_ + "/sub");
  ASSERT_EQ(::mkfifo((weights_ + "/sub/pipe").c_str(), 0600), 0);
  refused("sub/pipe", "neither a file nor a folder nor a link");
  fs::remove(weights_ + "/sub/pipe");
  scratch_.Write("weights/large", "");
  fs::resize_file(weights_ + "/large", kMaxForeignBytes);
  EXPECT_TRUE(SlotUpdate::CheckForeign(weights_, {.files = {"tp0", "tp1"}}).ok());
  scratch_.Write("weights/more", "1");
  refused("more", "they are over 256 MiB together");
  fs::remove(weights_ + "/large");
  for (size_t i = 0; i < kMaxForeignEntries - 2; ++i)
    scratch_.Write("weights/sub/" + std::to_string(10'000 + i), "");
  EXPECT_TRUE(SlotUpdate::CheckForeign(weights_, {.files = {"tp0", "tp1"}}).ok());
  scratch_.Write("weights/sub/99999", "");
  refused("sub/99999", "they are over 10000 in number");
}

// A backup by hard links, or a link to another place, is not written through.
TEST_F(SlotUpdateTest, FilesWithASecondNameAreReplaced) {
  Refresh("one");
  fs::create_hard_link(weights_ + "/tp0", scratch_.Path("backup"));
  const std::string elsewhere = scratch_.Write("elsewhere", "mine");
  fs::remove(weights_ + "/tp1");
  fs::create_symlink(elsewhere, weights_ + "/tp1");
  Refresh("two");
  Refresh("three");
  EXPECT_EQ(Current(), ".weights.1");
  EXPECT_EQ(ReadBytes(scratch_.Path("backup")), "one");
  EXPECT_EQ(ReadBytes(elsewhere), "mine");
  EXPECT_EQ(ReadBytes(weights_ + "/tp1"), "three");
}

TEST_F(SlotUpdateTest, RecoversFromAKillBeforeTheSwitch) {
  fs::create_symlink(".weights.0", scratch_.Path(".weights.next-1"));
  fs::create_symlink(".weights.0", Slot(0));  // before the exchange
  Refresh("new");
  EXPECT_EQ(Read(), "new");
  EXPECT_EQ(Names(),
            (std::set<std::string>{".weights.1", ".weights.2", ".weights.lock", "weights"}));
}

TEST_F(SlotUpdateTest, AForeignLinkIsRefused) {
  fs::rename(weights_, scratch_.Path("elsewhere"));
  fs::create_directory_symlink("elsewhere", weights_);
  const auto error = ExpectError(SlotUpdate::Begin(weights_, {}), Errc::kUnsupported,
                                 "is a link to elsewhere, expected a folder or a link to a slot");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), weights_);
}

TEST(MakeFirstSlot, GivesANewBundleItsLink) {
  const Scratch scratch;
  fs::create_directory(scratch.Path("weights"));
  scratch.Write("weights/tp0", "0");
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(MakeFirstSlot(scratch.Path("weights")).ok());
    EXPECT_EQ(fs::read_symlink(scratch.Path("weights")), ".weights.0");
    EXPECT_EQ(ReadBytes(scratch.Path("weights/tp0")), "0");
  }
}

TEST_F(PinTest, APlainFolderIsItself) {
  const Result<PinnedWeights> pinned = PinWeights(weights_);
  ASSERT_TRUE(pinned.ok()) << pinned.error().ToString();
  EXPECT_EQ(pinned->folder, weights_);
  EXPECT_FALSE(pinned->half_done);
}

TEST_F(PinTest, TheSlotIsNamedSoThatASwitchDoesNotMoveIt) {
  Refresh("one");
  const Result<PinnedWeights> pinned = PinWeights(weights_);
  ASSERT_TRUE(pinned.ok());
  EXPECT_EQ(pinned->folder, Slot(1));
}

TEST_F(PinTest, SaysWhetherTheSlotIsHalfDone) {
  Refresh("one");
  scratch_.Write(".weights.1/.incomplete", "");
  const Result<PinnedWeights> pinned = PinWeights(weights_);
  ASSERT_TRUE(pinned.ok());
  EXPECT_TRUE(pinned->half_done);
}

TEST_F(PinTest, AMissingFolderIsNotFound) {
  ExpectError(PinWeights(scratch_.Path("none")), Errc::kNotFound, "open");
}

TEST_F(PinTest, AFolderThatAWriterKeepsIsAnError) {
  const Result<FolderLock> writer = FolderLock::Try(weights_, FolderLock::Mode::kExclusive);
  ASSERT_TRUE(writer.ok());
  ExpectError(PinWeights(weights_), Errc::kIo, "locked by a writer");
}

}  // namespace
}  // namespace nxdkit::rollout
