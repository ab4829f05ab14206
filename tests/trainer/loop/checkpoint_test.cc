// Damaged records of checkpoints, and the harm that they must not do.
#include "trainer/loop/checkpoint.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <thread>

#include "lib/system/folders.h"
#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"
#include "tests/trainer/comm/memory_transport.h"
#include "tests/trainer/model/model_lab.h"
#include "trainer/learner/follow.h"
#include "trainer/learner/followers.h"

namespace nxdkit::trainer {
namespace {

using testing_util::ExpectError;
using testing_util::TempFolder;
using testing_util::TinyQwen3;
using testing_util::WriteText;

TEST(FindLastCheckpoint, TakesTheOneThatTheTrackerNames) {
  const TempFolder folder;
  EXPECT_FALSE(FindLastCheckpoint(folder.path())->has_value()) << "a new run";
  std::filesystem::create_directories(folder / "global_step_7");
  WriteText(folder / "checkpoint_tracker.json", "{\"last_global_step\": 7}");
  const auto found = FindLastCheckpoint(folder.path());
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->step, 7);
  EXPECT_EQ((*found)->folder, folder / "global_step_7");
}

TEST(FindLastCheckpoint, RefusesWhatIsNoStep) {
  const TempFolder folder;
  for (const char* step : {"1e300", "7.5", "-7", "\"7\"", "18446744073709551615", "null"}) {
    WriteText(folder / "checkpoint_tracker.json",
              std::string("{\"last_global_step\": ") + step + "}");
    const auto error = ExpectError(FindLastCheckpoint(folder.path()), Errc::kCorrupt, "");
    ASSERT_TRUE(error) << step;
    EXPECT_EQ(error->file(), folder / "checkpoint_tracker.json");
    EXPECT_EQ(error->member(), "last_global_step") << step << ": " << error->ToString();
  }
}

// The checkpoints are whole; the file that names them was cut short by a full disk or a power cut.
TEST(FindLastCheckpoint, ATrackerThatCannotBeFollowedDoesNotStopTheRun) {
  const TempFolder folder;
  for (const char* name : {"global_step_9", "global_step_10", "global_step_11"})
    std::filesystem::create_directories(folder / name);
  for (const char* name : {"global_step_9", "global_step_10"})
    WriteText(folder / (std::string(name) + "/trainer_state.json"), "{}");
  for (const char* text : {"", "{", "[]", "{}", "{\"last_global_step\": 7}"}) {
    WriteText(folder / "checkpoint_tracker.json", text);
    const auto found = FindLastCheckpoint(folder.path());
    ASSERT_TRUE(found.ok() && found->has_value()) << text;
    EXPECT_EQ((*found)->step, 10) << "11 is not whole: " << text;
    EXPECT_EQ((*found)->choice, (Choice{folder / "global_step_10", 3, "number"}));
    ASSERT_EQ((*found)->warnings.size(), 1u);
    EXPECT_THAT((*found)->warnings[0],
                ::testing::AllOf(::testing::HasSubstr(folder / "checkpoint_tracker.json"),
                                 ::testing::HasSubstr("global_step_10, the newest")));
    // A checkpoint requested by name is not guessed.
    const auto error =
        ExpectError(ChooseCheckpoint(folder / "new", folder.path(), true), Errc::kCorrupt, "");
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->file(), folder / "checkpoint_tracker.json");
    EXPECT_THAT(error->hint(),
                ::testing::EndsWith("trainer.load_checkpoint_path=" + (folder / "global_step_10")));
    const auto named =
        ChooseCheckpoint(folder / "new", std::string(folder / "global_step_9"), true);
    ASSERT_TRUE(named.ok() && named->has_value()) << text;
    EXPECT_EQ((*named)->step, 9);
  }
}

TEST(FindLastCheckpoint, OneThatIsBehindIsFollowedAloud) {
  const TempFolder folder;
  for (const char* name : {"global_step_9", "global_step_10"}) {
    std::filesystem::create_directories(folder / name);
    WriteText(folder / (std::string(name) + "/trainer_state.json"), "{}");
  }
  WriteText(folder / "checkpoint_tracker.json", "{\"last_global_step\": 9}");
  const auto found = FindLastCheckpoint(folder.path());
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->step, 9);
  EXPECT_EQ((*found)->choice, (Choice{folder / "global_step_9", 2, "tracker"}));
  EXPECT_THAT((*found)->warnings,
              ::testing::ElementsAre(::testing::HasSubstr("global_step_10 is there too")));
}

TEST(FindLastCheckpoint, WithoutATrackerTheLastOneThatIsWhole) {
  const TempFolder folder;
  for (const char* name : {"global_step_7", "global_step_12", "global_step_40.partial"})
    std::filesystem::create_directories(folder / name);
  const auto found = FindLastCheckpoint(folder.path());
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->folder, folder / "global_step_12");
}

// The beginning of a run, according to the checkpoints in its folder.
class ChooseCheckpointIn : public ::testing::Test {
 protected:
  void Add(const std::string& name, const std::string& started_from) const {
    std::filesystem::create_directories(folder_ / name);
    WriteText(folder_ / (name + "/trainer_state.json"),
              "{\"version\": 1, \"step\": 1, \"schedule_steps\": 1, \"prompts_seen\": 1, "
              "\"tp\": 1, \"dp\": 1, \"kl_beta\": 0, \"started_from\": \"" +
                  started_from + "\"}");
  }
  std::string Chosen(const std::string& root, const std::optional<std::string>& load,
                     bool find_last) const {
    const auto found = ChooseCheckpoint(folder_ / root, load, find_last);
    if (!found.ok()) return std::string(ErrcName(found.error().code()));
    return *found ? (*found)->folder.substr(folder_.path().size() + 1) : "none";
  }
  const TempFolder folder_;
};

TEST_F(ChooseCheckpointIn, AWholeRunIsItsLastCheckpoint) {
  std::filesystem::create_directories(folder_ / "other/global_step_4");
  std::filesystem::create_directories(folder_ / "other/global_step_6");
  EXPECT_EQ(Chosen("new", folder_ / "other", false), "other/global_step_6");
  std::filesystem::create_directories(folder_ / "empty");
  const auto error =
      ExpectError(ChooseCheckpoint(folder_ / "new", folder_ / "empty", false), Errc::kUsage,
                  "empty is not named global_step_N, and holds none that is");
  EXPECT_TRUE(error);
}

// The state of a later program may claim that the run began there.
TEST_F(ChooseCheckpointIn, AStateThatCannotBeReadIsNotPassedOver) {
  Add("run/global_step_4", "");
  Add("run/global_step_9", "global_step_4");
  const std::string state = folder_ / "run/global_step_9/trainer_state.json";
  EXPECT_EQ(Chosen("run", folder_ / "run/global_step_4", true), "run/global_step_9");
  WriteText(state, "{\"version\": 2}");
  const auto error = ExpectError(
      ChooseCheckpoint(folder_ / "run", std::string(folder_ / "run/global_step_4"), true),
      Errc::kUnsupported, "version 2");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), state);
  WriteText(state, "{");
  EXPECT_EQ(Chosen("run", folder_ / "run/global_step_4", true), "run/global_step_4");
}

TEST_F(ChooseCheckpointIn, ANewFolder) {
  Add("other/global_step_4", "");
  EXPECT_EQ(Chosen("run", std::nullopt, true), "none");
  EXPECT_EQ(Chosen("run", std::nullopt, false), "none");
  EXPECT_EQ(Chosen("run", folder_ / "other/global_step_4", true), "other/global_step_4");
  EXPECT_EQ(Chosen("run", folder_ / "other/global_step_4", false), "other/global_step_4");
}

TEST_F(ChooseCheckpointIn, ARunThatBeganAtItsStart) {
  Add("run/global_step_4", "");
  Add("run/global_step_9", "");
  Add("other/global_step_4", "");
  EXPECT_EQ(Chosen("run", std::nullopt, true), "run/global_step_9");
  EXPECT_EQ(Chosen("run", std::nullopt, false), "usage");
  // An earlier step can be requested; the checkpoint of another run is a mistake.
  EXPECT_EQ(Chosen("run", folder_ / "run/global_step_4", true), "run/global_step_4");
  EXPECT_EQ(Chosen("run", folder_ / "run/global_step_4", false), "run/global_step_4");
  EXPECT_EQ(Chosen("run", folder_ / "other/global_step_4", true), "usage");
  const auto refused = ChooseCheckpoint(folder_ / "run", std::nullopt, false);
  EXPECT_EQ(refused.error().file(), folder_ / "run");
  EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("a checkpoint of step 9"));
  EXPECT_THAT(refused.error().hint(), ::testing::HasSubstr("trainer.find_last_checkpoint=true"));
}

TEST_F(ChooseCheckpointIn, ARunThatBeganAtACheckpoint) {
  Add("other/global_step_4", "");
  Add("other/global_step_8", "");
  Add("run/global_step_6", std::filesystem::canonical(folder_ / "other/global_step_4"));
  EXPECT_EQ(Chosen("run", folder_ / "other/global_step_4", true), "run/global_step_6");
  EXPECT_EQ(Chosen("run", folder_ / "other/../other/global_step_4/", true), "run/global_step_6");
  EXPECT_EQ(Chosen("run", folder_ / "other/global_step_8", true), "usage");
  Add("run/global_step_7", "global_step_6");
  EXPECT_EQ(Chosen("run", folder_ / "run/global_step_6", true), "run/global_step_7");
  EXPECT_EQ(Chosen("run", folder_ / "run/global_step_6", false), "run/global_step_6");
}

TEST(RestoreCheckpoint, ADamagedStateNamesTheEarlierCheckpoint) {
  const TempFolder folder;
  for (const char* name : {"global_step_3", "global_step_7", "global_step_9"})
    std::filesystem::create_directories(folder / name);
  const std::string state = folder / "global_step_7/trainer_state.json";
  const FoundCheckpoint found{folder / "global_step_7", 7, std::nullopt};
  const auto refuse = [&](Errc code) {
    const auto error = ExpectError(RestoreCheckpoint(found, {}, {}), code, "");
    ASSERT_TRUE(error);
    EXPECT_EQ(error->file(), state);
    EXPECT_EQ(error->hint(), "continue from an earlier step: trainer.load_checkpoint_path=" +
                                 (folder / "global_step_3"));
  };
  refuse(Errc::kNotFound);
  for (const char* text : {"", "{\"version\": 1, \"st", "[]", "{\"version\": 1}",
                           "{\"version\": 1, \"step\": 6, \"schedule_steps\": 1, "
                           "\"prompts_seen\": 1, \"tp\": 1, \"dp\": 1, \"kl_beta\": 0}"}) {
    SCOPED_TRACE(text);
    WriteText(state, text);
    refuse(Errc::kCorrupt);
  }
  // The state of a later program is not damaged.
  WriteText(state, "{\"version\": 2}");
  const auto later = ExpectError(RestoreCheckpoint(found, {}, {}), Errc::kUnsupported, "version 2");
  EXPECT_EQ(later->hint(), "");
}

TEST(RemoveLeftovers, TakesWhatNoRunWillFinish) {
  const TempFolder folder;
  for (const char* name : {"global_step_7", "global_step_7.partial", "mine.partial"})
    std::filesystem::create_directories(folder / name);
  for (const char* name : {"checkpoint_tracker.json", "checkpoint_tracker.json.tmp-81",
                           "experiment_config.json.tmp-81", "checkpoint_tracker.json.tmp-x"})
    WriteText(folder / name, "{}");
  ASSERT_TRUE(RemoveLeftovers(folder.path()).ok());
  EXPECT_THAT(*ListFolder(folder.path()),
              ::testing::ElementsAre("checkpoint_tracker.json", "checkpoint_tracker.json.tmp-x",
                                     "global_step_7", "mine.partial"));
  EXPECT_TRUE(RemoveLeftovers(folder / "nowhere").ok());
}

// A process was killed while replacing one checkpoint by another.
TEST(RemoveLeftovers, TakesAReplacedCheckpointIfItsSuccessorIsThere) {
  const TempFolder folder;
  for (const char* name :
       {"global_step_7", "global_step_7.old.81-93.partial/actor", "global_step_8.old.81-93.partial",
        "global_step_7.old.81.partial", "global_step_7.old.81-x.partial", "mine.old.81-93.partial"})
    std::filesystem::create_directories(folder / name);
  ASSERT_TRUE(RemoveLeftovers(folder.path()).ok());
  EXPECT_THAT(*ListFolder(folder.path()),
              ::testing::ElementsAre("global_step_7", "global_step_7.old.81-x.partial",
                                     "global_step_7.old.81.partial",
                                     "global_step_8.old.81-93.partial", "mine.old.81-93.partial"));
}

class SavedCheckpoint : public ::testing::Test {
 protected:
  std::unique_ptr<MeshModel> Make(const MeshOptions& options) const {
    auto model = MeshModel::Make(lab_.config(), options, lab_.source());
    EXPECT_TRUE(model.ok()) << model.error().ToString();
    return *std::move(model);
  }
  Status Save(MeshModel& model, int64_t step, const std::function<Status()>& may_publish) const {
    SaveRequest request;
    request.root = folder_.path();
    request.state.step = step;
    request.limit = 1;
    request.may_publish = may_publish;
    const TrainedModel trained[] = {{"actor", &model, &lab_.source().artifact}};
    return SaveCheckpoint(request, trained, {});
  }
  static MeshOptions Options() {
    MeshOptions options;
    options.update.max_tokens = options.experience.max_tokens = 40;
    return options;
  }
  const ModelLab lab_{TinyQwen3()};
  const TempFolder folder_;
};

// Another attempt at the run has begun while this one's folder was being published.
TEST_F(SavedCheckpoint, OfOneThatIsOvertakenMeanwhileDeletesNothing) {
  const auto model = Make(Options());
  ASSERT_TRUE(Save(*model, 1, {}).ok());
  int asked = 0;
  const Status overtaken = Save(
      *model, 2, [&] { return ++asked == 1 ? OkStatus() : Status(Error(Errc::kIo, "overtaken")); });
  ExpectError(overtaken, Errc::kIo, "overtaken");
  EXPECT_EQ((*FindLastCheckpoint(folder_.path()))->step, 1);
  EXPECT_EQ(*KindOf(folder_ / "global_step_1"), PathKind::kFolder);
}

// A run on several machines whose folder only one of them has.
TEST_F(SavedCheckpoint, IsNotGoneOnFromWhereAnotherMachineLacksIt) {
  ASSERT_TRUE(Save(*Make(Options()), 1, {}).ok());
  const FoundCheckpoint found{folder_ / "global_step_1", 1, std::nullopt};
  MemoryNet net(2);
  const std::unique_ptr<Transport> first = net.Join(0), second = net.Join(1);
  std::atomic<bool> has{false};
  OrderHandlers handlers;
  handlers["sees"] = [&](const Json&, const Working&) {
    return Result<Json>(Json{{"sees", has.load()}});
  };
  const std::jthread follows([&] { EXPECT_TRUE(Follow(*second, handlers).ok()); });
  Leader leader(*first);
  MeshOptions options = Options();
  options.transport = first.get();
  options.led = true;
  options.leader = &leader;
  options.dp = 2;
  options.ranks_of_process = {1, 1};
  options.origin.path = lab_.source().artifact.path;
  const auto model = Make(options);
  const TrainedModel trained[] = {{"actor", model.get(), &lab_.source().artifact}};
  const auto error = ExpectError(RestoreCheckpoint(found, trained, {}), Errc::kNotFound,
                                 "process 1 of the run does not have this checkpoint");
  EXPECT_EQ(error->file(), found.folder);
  EXPECT_TRUE(leader.in_order());
  has = true;
  EXPECT_EQ(RestoreCheckpoint(found, trained, {})->step, 1);
  EXPECT_TRUE(leader.TellAll({{"call", "end"}}).ok());
}

}  // namespace
}  // namespace nxdkit::trainer
