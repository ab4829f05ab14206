#include "formats/kinds/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/artifact/artifact.h"
#include "formats/kinds/open.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit::ops {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const int step : {2, 10, 9}) {
      const std::string name = "run/global_step_" + std::to_string(step);
      workshop_.Make(name + "/actor", model_, &ops::kHf, &ops::kNxd, Tp2());
    }
    fs::create_directories(workshop_ / "run/global_step_30.partial/actor");
    fs::create_directories(workshop_ / "run/global_step_31");
  }
  static OutputOptions Tp2() {
    OutputOptions options;
    options.Set("tp", 2);
    return options;
  }
  std::string Step(int step) const {
    return workshop_ / ("run/global_step_" + std::to_string(step));
  }
  const testing_util::OpsWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
  const std::string run_ = workshop_ / "run";
};

TEST_F(RunFolder, LeadsToTheNewestCheckpoint) {
  EXPECT_EQ(FindCheckpoint(run_)->path, Step(10) + "/actor");
  EXPECT_EQ(FindCheckpoint(Step(9))->path, Step(9) + "/actor");
  EXPECT_EQ(FindCheckpoint(Step(9) + "/actor")->path, Step(9) + "/actor");
  EXPECT_EQ(FindCheckpoint(Step(31))->path, Step(31)) << "there is no actor in it";
  EXPECT_EQ(FindCheckpoint(model_)->path, model_);
}

TEST_F(RunFolder, TheTrackersWordCounts) {
  const std::string tracker = workshop_ / "run/checkpoint_tracker.json";
  testing_util::WriteText(tracker, "{\"last_global_step\": 2}");
  const RunCheckpoint found = *FindCheckpoint(run_);
  EXPECT_EQ(found.path, Step(2) + "/actor");
  EXPECT_EQ(found.choice, (Choice{Step(2), 3, "tracker"}));
  EXPECT_THAT(found.warnings,
              ElementsAre(tracker + " names global_step_2, and global_step_10 is there too: the "
                                    "newer one is passed over"));
  testing_util::WriteText(tracker, "{\"last_global_step\": 10}");
  EXPECT_THAT(FindCheckpoint(run_)->warnings, IsEmpty());
}

TEST_F(RunFolder, ATrackerThatCannotBeFollowedIsPassedOverAloud) {
  const std::string tracker = workshop_ / "run/checkpoint_tracker.json";
  const std::pair<const char*, const char*> rows[] = {
      {"{\"last_global_step\": 77}", "it names global_step_77, which is gone"},
      {"{\"last_global_step\": -1}", "found -1"},
      {"{\"best_global_step\": 2}", "last_global_step"},
      {"[]", "found no object"},
      {"{\"last_glo", ""},
      {"", ""}};
  for (const auto& [text, why] : rows) {
    testing_util::WriteText(tracker, text);
    const RunCheckpoint found = *FindCheckpoint(run_);
    EXPECT_EQ(found.path, Step(10) + "/actor") << text;
    EXPECT_EQ(found.choice, (Choice{Step(10), 3, "number"}));
    ASSERT_EQ(found.warnings.size(), 1u) << text;
    EXPECT_THAT(found.warnings[0],
                AllOf(HasSubstr(tracker), HasSubstr(why), HasSubstr("global_step_10, the newest")));
  }
}

TEST_F(RunFolder, WhoOpensItSaysWhatWasTaken) {
  testing_util::WriteText(workshop_ / "run/checkpoint_tracker.json", "");
  const auto opened = OpenArtifact(run_, &ops::kNxd, {});
  ASSERT_TRUE(opened.ok()) << opened.error().ToString();
  EXPECT_THAT(opened->choices, ElementsAre(Choice{Step(10), 3, "number"}));
  EXPECT_THAT(opened->warnings, ElementsAre(HasSubstr("it is passed over")));
  InputHints hints;
  hints.Set("tag", "global_step_9");
  EXPECT_THAT(OpenArtifact(run_, &ops::kNxd, hints)->choices,
              ElementsAre(Choice{Step(9), 3, "option"}));
}

TEST_F(RunFolder, AFinishedOneCountsBeforeANewerOne) {
  fs::remove(Step(10) + "/actor/done");
  EXPECT_EQ(FindCheckpoint(run_)->path, Step(9) + "/actor");
  testing_util::WriteText(workshop_ / "run/checkpoint_tracker.json", "{\"last_global_step\": 10}");
  EXPECT_EQ(FindCheckpoint(run_)->path, Step(9) + "/actor");
  EXPECT_EQ(FindCheckpoint(Step(10))->path, Step(10) + "/actor") << "it was named";
  fs::remove(Step(9) + "/actor/done");
  fs::remove(Step(2) + "/actor/done");
  EXPECT_EQ(FindCheckpoint(run_)->path, Step(10) + "/actor")
      << "whose reader says that it is not finished";
}

// EasyR1 itself does not mark anything as finished.
TEST_F(RunFolder, WithoutAnyMarkTheTrackersWordCounts) {
  for (const int step : {2, 9, 10}) fs::remove(Step(step) + "/actor/done");
  testing_util::WriteText(workshop_ / "run/checkpoint_tracker.json", "{\"last_global_step\": 9}");
  EXPECT_EQ(FindCheckpoint(run_)->path, Step(9) + "/actor");
}

TEST_F(RunFolder, ATagNamesOneOfItsCheckpoints) {
  InputHints hints;
  hints.Set("tag", "global_step_2");
  const auto opened = OpenArtifact(run_, &ops::kNxd, hints);
  ASSERT_TRUE(opened.ok()) << opened.error().ToString();
  EXPECT_EQ(opened->path, Step(2) + "/actor");
  hints.Set("tag", "global_step_3");
  EXPECT_FALSE(OpenArtifact(run_, &ops::kNxd, hints).ok());
}

// The files of a trainer's checkpoint for transformers.
TEST_F(RunFolder, OfHuggingFaceIsTheModelBesideTheShards) {
  const auto nothing = OpenArtifact(run_, &ops::kHf, {});
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().hint(),
            "it looks like nxd: convert it first, nxd-convert --from nxd --to hf " + Step(10) +
                "/actor MODEL");
  fs::copy(model_, Step(10) + "/actor/huggingface");
  const auto opened = OpenArtifact(run_, &ops::kHf, {});
  ASSERT_TRUE(opened.ok()) << opened.error().ToString();
  EXPECT_EQ(opened->path, Step(10) + "/actor/huggingface");
}

TEST_F(RunFolder, IsOpenedAsItsCheckpoint) {
  for (const std::string& path : {run_, Step(10), Step(2)}) {
    const auto kind = Recognise(path);
    ASSERT_TRUE(kind.ok()) << kind.error().ToString();
    EXPECT_EQ(*kind, &ops::kNxd);
    const auto opened = OpenArtifact(path, *kind, {});
    ASSERT_TRUE(opened.ok()) << opened.error().ToString();
    EXPECT_EQ(opened->path, FindCheckpoint(path)->path);
    const auto verified = testing_util::VerifyAgainst(path, model_);
    ASSERT_TRUE(verified.ok()) << verified.error().ToString();
    EXPECT_TRUE(verified->findings.empty());
  }
}

TEST(StepOfFolder, IsTheWholeName) {
  EXPECT_EQ(StepOfFolder("global_step_5"), 5);
  EXPECT_EQ(StepFolder(5), "global_step_5");
  for (const char* name : {"global_step_", "global_step_5.partial", "global_step_-5", "step_5"})
    EXPECT_FALSE(StepOfFolder(name)) << name;
}

}  // namespace
}  // namespace nxdkit::ops
