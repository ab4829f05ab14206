// Slots that other machines may read: new files for every version, and age instead of locks.
#include "formats/rollout/weight_slots.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "lib/system/owner.h"
#include "tests/formats/rollout/slots.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::rollout {
namespace {

using testing_util::ExpectError;
using testing_util::ReadBytes;

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
  // Ages it, as if nothing had changed in it for that long.
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
  Age(Slot(1), 1000);  // made long ago
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
  dead.start -= 1;  // another process with the same pid
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

// Another process took it for dead and is removing the files.
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

}  // namespace
}  // namespace nxdkit::rollout
