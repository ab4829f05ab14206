// The states that a kill, or a manual change, leaves in the step that makes a plain folder a slot.
#include "formats/rollout/adoption.h"

#include <gtest/gtest.h>

#include "formats/rollout/weights_version.h"
#include "tests/formats/rollout/slots.h"

namespace nxdkit::rollout {
namespace {

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
  EXPECT_EQ(Repaired(), "completed the work of a killed run: weights leads to .weights.0");
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
  fs::remove_all(Slot(1));  // now a dangling link
  EXPECT_EQ(Repaired(),
            "weights was missing; it leads to the newest whole version now, .weights.0");
}

TEST_F(Repairs, AnIntentThatNamesNoSlotIsNotFollowed) {
  fs::rename(weights_, scratch_.Path("elsewhere"));
  scratch_.Write(".weights.adopt", "elsewhere");
  EXPECT_EQ(Repaired(), "");
  EXPECT_FALSE(fs::exists(fs::symlink_status(weights_)));
}

}  // namespace
}  // namespace nxdkit::rollout
