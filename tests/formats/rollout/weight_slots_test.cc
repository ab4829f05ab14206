// The slots of a bundle's weights: the switch, who may hold what, and what a kill leaves.
#include "formats/rollout/weight_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "formats/rollout/adoption.h"
#include "formats/rollout/foreign_files.h"
#include "formats/rollout/weights_version.h"
#include "lib/system/file.h"
#include "lib/system/owner.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::rollout {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing_util::ExpectError;
using testing_util::ReadBytes;
using testing_util::Scratch;

class Slots : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(weights_);
    scratch_.Write("weights/tp0", "old 0");
    scratch_.Write("weights/tp1", "old 1");
  }

  std::unique_ptr<SlotUpdate> Begin(bool sync = false) const {
    auto update = SlotUpdate::Begin(weights_, {.files = {"tp0", "tp1"}, .sync = sync});
    EXPECT_TRUE(update.ok()) << update.error().ToString();
    return update.ok() ? *std::move(update) : nullptr;
  }
  // Writes `text` into both files, without truncating.
  static void Fill(const SlotUpdate& update, const std::string& text) {
    for (const char* name : {"/tp0", "/tp1"}) {
      const Result<File> file = File::OpenWrite(update.path() + name);
      ASSERT_TRUE(file.ok());
      EXPECT_TRUE(file->Allocate(text.size()).ok());
      EXPECT_TRUE(file->WriteAt(0, std::as_bytes(std::span(text.data(), text.size()))).ok());
    }
  }
  void Refresh(const std::string& text, bool sync = false) const {
    const std::unique_ptr<SlotUpdate> update = Begin(sync);
    ASSERT_NE(update, nullptr);
    Fill(*update, text);
    const Status published = update->Publish();
    EXPECT_TRUE(published.ok()) << published.error().ToString();
  }
  std::string Current() const { return fs::read_symlink(weights_).string(); }
  std::string Read() const { return ReadBytes(weights_ + "/tp0"); }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(scratch_.folder()))
      names.insert(entry.path().filename().string());
    return names;
  }
  std::string Slot(int i) const { return scratch_.Path(".weights." + std::to_string(i)); }

  const Scratch scratch_;
  const std::string weights_ = scratch_.Path("weights");
};

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

// An engine that knows nothing of our locks: what it has open is not overwritten, and what else is
// in that slot can still be opened, when others of its age go.
TEST_F(SlotUpdateTest, ASlotWithAnOpenFileIsLeftAlone) {
  Refresh("one");
  const Result<File> engine = File::OpenRead(weights_ + "/tp1");
  ASSERT_TRUE(engine.ok());
  const Result<InUse> in_use = AskInUse(weights_ + "/tp1");
  ASSERT_TRUE(in_use.ok());
  if (*in_use == InUse::kUnknown) GTEST_SKIP() << "no leases on this file system";
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

// As `flock -s .weights.lock engine` does.
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

// --- what lies beside the weights

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

// A private file does not become readable to all, a program stays one; whatever the umask.
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
  for (const int slot : {0, 1})  // so that the folder of the test can be removed
    EXPECT_EQ(::chmod((Slot(slot) + "/closed").c_str(), 0700), 0);
}

// Those of the current version: what was changed or removed there does not come back.
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

// A backup by hard links, or a file that is a link to somewhere else, is not written through.
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

// --- where other machines may read

class SharedSlots : public Slots {
 protected:
  std::unique_ptr<SlotUpdate> BeginShared() const {
    auto update = SlotUpdate::Begin(weights_, {.files = {"tp0", "tp1"}, .shared = true});
    EXPECT_TRUE(update.ok()) << update.error().ToString();
    return update.ok() ? *std::move(update) : nullptr;
  }
  void RefreshShared(const std::string& text) const {
    const std::unique_ptr<SlotUpdate> update = BeginShared();
    ASSERT_NE(update, nullptr);
    EXPECT_FALSE(update->reused());
    Fill(*update, text);
    const Status published = update->Publish();
    EXPECT_TRUE(published.ok()) << published.error().ToString();
    EXPECT_EQ(Read(), text);
  }
  // As if nothing had changed in it for so long.
  void Age(const std::string& slot, int64_t seconds) const {
    const auto then = fs::file_time_type::clock::now() - std::chrono::seconds(seconds);
    for (const auto& entry : fs::directory_iterator(slot)) fs::last_write_time(entry.path(), then);
    fs::last_write_time(slot, then);
  }
};

TEST_F(SharedSlots, EveryVersionIsNewFilesUnderANewName) {
  const Result<File> engine = File::OpenRead(weights_ + "/tp0");
  ASSERT_TRUE(engine.ok());
  for (const char* text : {"one 1", "two 2", "three"}) RefreshShared(text);
  EXPECT_EQ(Current(), ".weights.3");
  std::string seen(5, ' ');
  ASSERT_TRUE(engine->ReadAt(0, std::as_writable_bytes(std::span(seen))).ok());
  EXPECT_EQ(seen, "old 0");
  for (const int slot : {0, 1, 2, 3}) EXPECT_TRUE(fs::exists(Slot(slot))) << slot;
}

TEST_F(SharedSlots, WhatWasRetiredLongAgoGoes) {
  for (const char* text : {"one", "two", "three"}) RefreshShared(text);
  Age(Slot(0), 60);
  Age(Slot(1), 180);
  RefreshShared("four");
  EXPECT_TRUE(fs::exists(Slot(0)));
  EXPECT_FALSE(fs::exists(Slot(1)));
  EXPECT_EQ(ReadBytes(Slot(3) + "/tp0"), "three") << "the version before stays, however old";
}

TEST_F(SharedSlots, TheVersionBeforeCountsFromItsRetirement) {
  RefreshShared("one");
  Age(Slot(1), 1000);  // it was made long ago
  RefreshShared("two");
  RefreshShared("three");
  EXPECT_EQ(ReadBytes(Slot(1) + "/tp0"), "one");
}

TEST_F(SharedSlots, ASlotThatAReaderHoldsStaysHoweverOld) {
  RefreshShared("one");
  const Result<PinnedWeights> reader = PinWeights(weights_);
  ASSERT_TRUE(reader.ok());
  RefreshShared("two");
  Age(Slot(1), 1000);
  RefreshShared("three");
  EXPECT_EQ(ReadBytes(reader->folder + "/tp0"), "one");
}

TEST_F(SharedSlots, AHalfDoneSlotGoesWhenItsWriterIsDead) {
  RefreshShared("one");
  const auto half = [&](int slot, const std::string& mark) {
    fs::create_directory(Slot(slot));
    scratch_.Write(".weights." + std::to_string(slot) + "/.incomplete", mark);
  };
  Owner dead = ThisProcess();
  dead.start -= 1;  // another one of the same pid
  half(5, dead.ToText());
  half(6, ThisProcess().ToText());
  half(7, "elsewhere boot/1 17 4711\n");
  half(8, "elsewhere boot/1 17 4711\n");
  half(9, "");
  Age(Slot(7), 29 * 60);
  Age(Slot(8), 31 * 60);
  RefreshShared("two");
  EXPECT_FALSE(fs::exists(Slot(5))) << "of this machine, and gone";
  EXPECT_TRUE(fs::exists(Slot(6))) << "of a living process";
  EXPECT_TRUE(fs::exists(Slot(7))) << "of another machine, not long silent";
  EXPECT_FALSE(fs::exists(Slot(8)));
  EXPECT_TRUE(fs::exists(Slot(9))) << "of nobody known, not long silent";
  EXPECT_EQ(Current(), ".weights.10");
}

// Somebody took it for dead and is removing the files.
TEST_F(SharedSlots, AWriterThatWasGivenUpCannotPublish) {
  const std::unique_ptr<SlotUpdate> update = BeginShared();
  ASSERT_NE(update, nullptr);
  Fill(*update, "new 0");
  fs::rename(update->path() + "/.incomplete", update->path() + "/.removed");
  ASSERT_TRUE(ExpectError(update->Publish(), Errc::kIo, "remove the mark"));
  EXPECT_EQ(Read(), "old 0");
}

TEST_F(SharedSlots, AReaderSeesWholeVersionsThroughManySwitches) {
  std::atomic<bool> done = false;
  std::string wrong;
  int reads = 0;
  std::thread reader([&] {
    while (!done) {
      const Result<PinnedWeights> pinned = PinWeights(weights_);
      if (!pinned.ok()) wrong = pinned.error().ToString();
      if (!wrong.empty()) return;
      const std::string a = ReadBytes(pinned->folder + "/tp0");
      const std::string b = ReadBytes(pinned->folder + "/tp1");
      if (a != b && !(a == "old 0" && b == "old 1")) wrong = a + " and " + b;
      ++reads;
    }
  });
  for (int i = 0; i < 200; ++i) RefreshShared("version " + std::to_string(1000 + i));
  done = true;
  reader.join();
  EXPECT_EQ(wrong, "");
  EXPECT_GT(reads, 0);
}

// --- what a kill, or a hand, leaves

class Repairs : public Slots {
 protected:
  std::string Repaired() const {
    const Result<std::string> done = Repair(weights_, false);
    EXPECT_TRUE(done.ok()) << done.error().ToString();
    return done.ok() ? *done : "";
  }
  void ExpectLeads(const std::string& slot) const {
    EXPECT_EQ(Current(), slot);
    EXPECT_FALSE(fs::exists(scratch_.Path(".weights.adopt")));
  }
};

TEST_F(Repairs, NothingToDo) {
  EXPECT_EQ(Repaired(), "");
  EXPECT_EQ(Names(), (std::set<std::string>{"weights"}));
}

TEST_F(Repairs, BeforeTheFolderWasRenamed) {
  scratch_.Write(".weights.adopt", ".weights.0");
  EXPECT_EQ(Repaired(), "");
  EXPECT_EQ(Names(), (std::set<std::string>{"weights"}));
  Refresh("new 0");
  EXPECT_EQ(Read(), "new 0");
}

TEST_F(Repairs, WhileItHadNoName) {
  scratch_.Write(".weights.adopt", ".weights.0");
  fs::rename(weights_, Slot(0));
  const Result<PinnedWeights> reader = PinWeights(weights_);
  ASSERT_TRUE(reader.ok()) << reader.error().ToString();
  EXPECT_EQ(reader->folder, Slot(0));
  EXPECT_EQ(Repaired(), "completed what a killed run began: weights leads to .weights.0");
  ExpectLeads(".weights.0");
}

TEST_F(Repairs, AfterTheLinkWasMade) {
  scratch_.Write(".weights.adopt", ".weights.0");
  fs::rename(weights_, Slot(0));
  fs::create_symlink(".weights.0", weights_);
  EXPECT_EQ(Repaired(), "");
  ExpectLeads(".weights.0");
}

TEST_F(Repairs, ALinkThatSomebodyRemovedLeadsToTheNewestWholeVersion) {
  for (const char* text : {"one", "two"}) Refresh(text);
  const auto version = [&](int slot, int64_t serial) {
    scratch_.Write(".weights." + std::to_string(slot) + "/version.json",
                   WriteVersion({serial, "label", "source"}));
  };
  version(0, 2);
  version(1, 5);
  fs::create_directory(Slot(4));
  version(4, 6);
  scratch_.Write(".weights.4/.incomplete", "");
  fs::remove(weights_);
  EXPECT_EQ(Repaired(),
            "weights was missing; it leads to the newest whole version now, .weights.1");
  ExpectLeads(".weights.1");
  fs::remove_all(Slot(1));  // and now it leads to nothing
  EXPECT_EQ(Repaired(),
            "weights was missing; it leads to the newest whole version now, .weights.0");
}

TEST_F(Repairs, AnIntentThatNamesNoSlotIsNotFollowed) {
  fs::rename(weights_, scratch_.Path("elsewhere"));
  scratch_.Write(".weights.adopt", "elsewhere");
  EXPECT_EQ(Repaired(), "");
  EXPECT_FALSE(fs::exists(fs::symlink_status(weights_)));
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

// --- version.json

TEST(WeightsVersion, ComesBack) {
  const WeightsVersion version{7, "step_\"120\"\n", "shards/step_120"};
  const Result<WeightsVersion> again = ParseVersion(WriteVersion(version), "version.json");
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(*again, version);
}

TEST(WeightsVersion, KeepsTheDigest) {
  const WeightsVersion version{1, "a", "b", "sha256:00"};
  const Result<WeightsVersion> again = ParseVersion(WriteVersion(version), "version.json");
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(*again, version);
}

TEST(WeightsVersion, IsThisText) {
  EXPECT_EQ(WriteVersion({3, "step_120", "shards"}),
            "{\n  \"label\": \"step_120\",\n  \"schema_version\": 1,\n  \"serial\": 3,\n"
            "  \"source\": \"shards\"\n}\n");
}

TEST(WeightsVersion, OfAFolderWithoutOneIsNone) {
  const Scratch scratch;
  const auto version = ReadVersion(scratch.folder());
  ASSERT_TRUE(version.ok());
  EXPECT_FALSE(version->has_value());
}

struct BadVersion {
  const char* name;
  const char* text;
  Errc code;
  const char* member;
  const char* part;
};
class FaultyVersion : public ::testing::TestWithParam<BadVersion> {};

TEST_P(FaultyVersion, NamesTheKey) {
  const auto error = ExpectError(ParseVersion(GetParam().text, "v/version.json"), GetParam().code,
                                 GetParam().part);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), "v/version.json");
  EXPECT_EQ(error->member(), GetParam().member);
}

const BadVersion kBadVersions[] = {
    {"NotJson", "{", Errc::kCorrupt, "", "line 1"},
    {"Newer", R"({"schema_version": 2})", Errc::kUnsupported, "schema_version", "found version 2"},
    {"NoSerial", R"({"schema_version": 1})", Errc::kCorrupt, "serial", "missing"},
    {"SerialZero", R"({"schema_version": 1, "serial": 0, "label": "", "source": ""})",
     Errc::kCorrupt, "serial", "found 0, expected 1 or more"},
    {"SerialAtTheEnd",
     R"({"schema_version": 1, "serial": 9223372036854775807, "label": "", "source": ""})",
     Errc::kCorrupt, "serial", "found 9223372036854775807"},
    {"LabelOfANumber", R"({"schema_version": 1, "serial": 1, "label": 3, "source": ""})",
     Errc::kCorrupt, "label", "string"},
    {"DigestOfANumber",
     R"({"schema_version": 1, "serial": 1, "label": "", "source": "", "digest": 3})",
     Errc::kCorrupt, "digest", "string"},
};
INSTANTIATE_TEST_SUITE_P(All, FaultyVersion, ::testing::ValuesIn(kBadVersions),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace nxdkit::rollout
