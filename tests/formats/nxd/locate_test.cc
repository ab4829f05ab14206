// Every row of the decision table by names alone: the sets found, and the reasons of those refused.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "formats/artifact/artifact.h"
#include "formats/kinds/open.h"
#include "formats/nxd/refuse.h"
#include "formats/nxd/shard_set.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::nxd {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::ExpectError;

class Tree {
 public:
  // An empty file, or a folder when the name ends with a slash.
  Tree& Add(const std::string& name) {
    const std::string path = scratch_.Path(name);
    fs::create_directories(fs::path(path).parent_path());
    if (name.ends_with('/'))
      fs::create_directories(path);
    else
      scratch_.Write(name, "");
    return *this;
  }
  // The model/ files of a v2 tag for every rank.
  Tree& AddShards(const std::string& folder, int tp, int pp = 1) {
    for (int t = 0; t < tp; ++t)
      for (int p = 0; p < pp; ++p)
        Add(fmt::format("{}/dp_rank_00_tp_rank_{:02d}_pp_rank_{:02d}.pt", folder, t, p));
    return *this;
  }
  Tree& AddTag(const std::string& tag) {
    return Add(tag + "/checkpoint").AddShards(tag + "/model", 1);
  }
  void SetTime(const std::string& name, int64_t seconds, int64_t nanoseconds = 0) {
    const timespec times[2] = {{seconds, nanoseconds}, {seconds, nanoseconds}};
    ASSERT_EQ(::utimensat(AT_FDCWD, Path(name).c_str(), times, 0), 0) << name;
  }
  std::string Path(const std::string& name = "") const {
    return name.empty() ? scratch_.folder() : scratch_.Path(name);
  }

 private:
  testing_util::Scratch scratch_;
};

SetLocation Found(const std::string& path, const std::optional<std::string>& tag = std::nullopt) {
  auto location = Locate(path, tag);
  EXPECT_TRUE(location.ok()) << location.error().ToString();
  return location.ok() ? *std::move(location) : SetLocation();
}

struct StyleRow {
  const char* name;
  std::vector<std::string> entries;
  SetStyle style;
  bool has_markers;
  int tp, pp, ep;
};

class Styles : public ::testing::TestWithParam<StyleRow> {};
TEST_P(Styles, AreToldByNames) {
  const StyleRow& row = GetParam();
  Tree tree;
  for (const std::string& entry : row.entries) tree.Add(entry);
  EXPECT_TRUE(*LooksLikeShardSet(tree.Path()));
  const SetLocation location = Found(tree.Path());
  EXPECT_EQ(SetStyleName(location.style), SetStyleName(row.style));
  EXPECT_EQ(location.has_markers, row.has_markers);
  EXPECT_EQ(location.tp, row.tp);
  EXPECT_EQ(location.pp, row.pp);
  EXPECT_EQ(location.ep, row.ep);
  EXPECT_EQ(location.files.size(), static_cast<size_t>(row.tp * row.pp * row.ep));
}
const std::string kShard = "model/dp_rank_00_tp_rank_00_pp_rank_00.pt";
INSTANTIATE_TEST_SUITE_P(
    Rows, Styles,
    ::testing::Values(
        StyleRow{"V1",
                 {"tp_rank_00_pp_rank_00/checkpoint.pt", "tp_rank_01_pp_rank_00/checkpoint.pt"},
                 SetStyle::kV1,
                 false,
                 2,
                 1,
                 1},
        StyleRow{"V1OfEachDataParallelRank",
                 {"tp_rank_00_pp_rank_00_dp_rank_00/checkpoint.pt",
                  "tp_rank_00_pp_rank_00_dp_rank_01/checkpoint.pt"},
                 SetStyle::kV1,
                 false,
                 1,
                 1,
                 1},
        StyleRow{"V1Xser",
                 {"tp_rank_00_pp_rank_00", "tp_rank_00_pp_rank_00.tensors/tensor_0.pt"},
                 SetStyle::kV1Xser,
                 false,
                 1,
                 1,
                 1},
        StyleRow{
            "V1XserWithoutItsFolder", {"tp_rank_00_pp_rank_00"}, SetStyle::kV1Xser, false, 1, 1, 1},
        StyleRow{"V0", {"tp_rank_00", "tp_rank_01"}, SetStyle::kV0, false, 2, 1, 1},
        StyleRow{"V0WithAFolderOfTensors",
                 {"tp_rank_00", "tp_rank_00.tensors/tensor_0.pt"},
                 SetStyle::kV0,
                 false,
                 1,
                 1,
                 1},
        StyleRow{"V2", {kShard}, SetStyle::kV2, true, 1, 1, 1},
        StyleRow{"V2Xser",
                 {kShard, kShard + ".tensors/tensor_0.pt", kShard + ".info.pt"},
                 SetStyle::kV2Xser,
                 true,
                 1,
                 1,
                 1},
        StyleRow{"V2XserWithoutInfo",
                 {kShard, kShard + ".tensors/tensor_0.pt"},
                 SetStyle::kV2Xser,
                 true,
                 1,
                 1,
                 1},
        StyleRow{"V2XserWithTheInfoThatNnmsConverterMisnames",
                 {kShard, kShard + ".tensors/tensor_0.pt",
                  "model/dp_rank_00_tp_rank_00_pp_rank_00.info.pt"},
                 SetStyle::kV2Xser,
                 true,
                 1,
                 1,
                 1},
        StyleRow{
            "InlineXser", {kShard, kShard + ".tensors/"}, SetStyle::kInlineXser, true, 1, 1, 1},
        StyleRow{"WeightsLeftOut",
                 {kShard, kShard + ".tensors/", kShard + ".info.pt"},
                 SetStyle::kV2Xser,
                 true,
                 1,
                 1,
                 1},
        StyleRow{"ExpertParallel",
                 {"model/dp_rank_00_ep_rank_00_tp_rank_00_pp_rank_00.pt",
                  "model/dp_rank_00_ep_rank_01_tp_rank_00_pp_rank_00.pt"},
                 SetStyle::kV2,
                 true,
                 1,
                 1,
                 2},
        StyleRow{"Nnm",
                 {"tp_rank_00_pp_rank_000/model_optim_rng.ckpt",
                  "tp_rank_00_pp_rank_001/model_optim_rng.ckpt"},
                 SetStyle::kNnm,
                 false,
                 1,
                 2,
                 1}),
    [](const auto& row) { return row.param.name; });

TEST(Styles, TwoInOneFolderAreRefused) {
  Tree tree;
  tree.Add("tp_rank_00_pp_rank_00/checkpoint.pt").Add("tp_rank_01_pp_rank_00");
  const auto error = ExpectError(Locate(tree.Path(), std::nullopt), Errc::kCorrupt,
                                 "files of two styles are here: v1 and v1 xser");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), tree.Path());
}

TEST(Styles, RanksOfAnXserSetMayHaveAllTensorsInside) {
  Tree tree;
  tree.AddShards("model", 2).Add(kShard + ".tensors/tensor_0.pt");
  EXPECT_EQ(Found(tree.Path()).style, SetStyle::kV2Xser);
}

TEST(Names, WhatIsNoShardIsPassedOver) {
  Tree tree;
  tree.AddShards("model", 1)
      .Add("model/dp_rank_01_tp_rank_00_pp_rank_00.pt")
      .Add("model/dp_rank_00_tp_rank_-1_pp_rank_00.pt")
      .Add("model/dp_rank_00_tp_rank_01_pp_rank_00.pt.bak")
      .Add("model/dp_rank_00_tp_rank_99999999999_pp_rank_00.pt")
      .Add("model/dp_rank_00_tp_rank_01_tp_rank_02_pp_rank_00.pt")
      .Add("model/dp_rank_00_tp_rank_01.pt")
      .Add("model/newest");
  const SetLocation location = Found(tree.Path());
  ASSERT_EQ(location.files.size(), 1u);
  EXPECT_THAT(location.files[0].path, ::testing::EndsWith("tp_rank_00_pp_rank_00.pt"));
}

TEST(Names, ThreeDigitsAreRanksToo) {
  Tree tree;
  tree.AddShards("model", 101);
  const SetLocation location = Found(tree.Path());
  EXPECT_EQ(location.tp, 101);
  EXPECT_THAT(location.files.back().path, ::testing::EndsWith("tp_rank_100_pp_rank_00.pt"));
}

TEST(Grid, IsOrderedByTpThenPp) {
  Tree tree;
  tree.AddShards("model", 2, 2);
  std::vector<std::pair<int, int>> ranks;
  for (const ShardFile& file : Found(tree.Path()).files) ranks.push_back({file.tp, file.pp});
  EXPECT_THAT(ranks,
              ElementsAre(std::pair(0, 0), std::pair(0, 1), std::pair(1, 0), std::pair(1, 1)));
}

TEST(Grid, HolesAreNamed) {
  Tree tree;
  tree.AddShards("model", 3, 2);
  fs::remove(tree.Path("model/dp_rank_00_tp_rank_01_pp_rank_01.pt"));
  const auto error =
      ExpectError(Locate(tree.Path(), std::nullopt), Errc::kCorrupt,
                  "incomplete set: 5 shard files found, 6 expected for tp 3 pp 2; missing "
                  "tp_rank_01_pp_rank_01");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), tree.Path("model"));
}

TEST(Grid, ManyHolesAreNotAllNamed) {
  Tree tree;
  tree.Add("model/dp_rank_00_tp_rank_63_pp_rank_07.pt");
  ExpectError(Locate(tree.Path(), std::nullopt), Errc::kCorrupt,
              "1 shard files found, 512 expected for tp 64 pp 8; missing tp_rank_00_pp_rank_00, "
              "tp_rank_00_pp_rank_01, tp_rank_00_pp_rank_02, tp_rank_00_pp_rank_03, ...");
}

TEST(Grid, HolesOfExpertRanksAreNamed) {
  Tree tree;
  tree.Add("model/dp_rank_00_ep_rank_00_tp_rank_00_pp_rank_00.pt")
      .Add("model/dp_rank_00_ep_rank_01_tp_rank_00_pp_rank_00.pt")
      .Add("model/dp_rank_00_ep_rank_00_tp_rank_01_pp_rank_00.pt");
  ExpectError(Locate(tree.Path(), std::nullopt), Errc::kCorrupt,
              "3 shard files found, 4 expected for tp 2 pp 1 ep 2; missing "
              "tp_rank_01_pp_rank_00_ep_rank_01");
}

TEST(Grid, OneRankTwiceIsRefused) {
  Tree tree;
  tree.AddShards("model", 1).Add("model/dp_rank_00_tp_rank_0_pp_rank_0.pt");
  ExpectError(Locate(tree.Path(), std::nullopt), Errc::kCorrupt,
              "two files hold tp rank 0, pp rank 0: dp_rank_00_tp_rank_00_pp_rank_00.pt and "
              "dp_rank_00_tp_rank_0_pp_rank_0.pt");
}

// One tag, under all of its names.
TEST(Places, RootTagAndModelFolderAreTheSameSet) {
  Tree tree;
  tree.AddTag("run/step_5").Add("run/step_5/done");
  struct Way {
    const char* path;
    std::optional<std::string> tag;
  };
  for (const Way& way :
       {Way{"run", {}}, Way{"run/", {}}, Way{"run", "step_5"}, Way{"run/", "step_5"},
        Way{"run/step_5", {}}, Way{"run/step_5/", {}}, Way{"run/step_5//", {}},
        Way{"run/step_5/model", {}}, Way{"run/step_5/model/", {}}}) {
    SCOPED_TRACE(way.path);
    const SetLocation location = Found(tree.Path(way.path), way.tag);
    EXPECT_EQ(location.tag, "step_5");
    EXPECT_TRUE(fs::equivalent(location.tag_folder, tree.Path("run/step_5")));
    EXPECT_TRUE(fs::equivalent(location.root, tree.Path("run")));
    EXPECT_TRUE(fs::equivalent(location.shard_folder, tree.Path("run/step_5/model")));
    EXPECT_TRUE(location.finished);
    EXPECT_THAT(location.warnings, IsEmpty());
  }
}

TEST(Places, TheRootOfAPointIsTheFolderAbove) {
  Tree tree;
  tree.AddTag("run/step_5").Add("run/step_5/done");
  const SetLocation location = Found(tree.Path("run/step_5/."));
  EXPECT_TRUE(fs::equivalent(location.root, tree.Path("run")));
}

TEST(Places, ShardsOfATagMayLieInAFolderOfAnotherName) {
  Tree tree;
  tree.Add("step_5/done").AddShards("step_5/weights", 1);
  const SetLocation location = Found(tree.Path("step_5/weights"));
  EXPECT_EQ(location.tag, "step_5");
  EXPECT_TRUE(location.finished);
}

TEST(Places, TheFolderOfAnOldStyleIsItsOwnTag) {
  Tree tree;
  tree.Add("model/tp_rank_00_pp_rank_00/checkpoint.pt");
  const SetLocation location = Found(tree.Path("model"));
  EXPECT_EQ(location.tag_folder, tree.Path("model"));
  EXPECT_FALSE(location.has_markers);
  EXPECT_THAT(location.warnings, IsEmpty());
}

TEST(Places, ATagMayHoldAnOldStyle) {
  Tree tree;
  tree.Add("ckpts/step_5/tp_rank_00_pp_rank_00/checkpoint.pt");
  EXPECT_EQ(Found(tree.Path("ckpts"), "step_5").style, SetStyle::kV1);
}

TEST(Places, NothingIsNotFound) {
  Tree tree;
  tree.Add("notes.txt").Add("runs/");
  EXPECT_FALSE(*LooksLikeShardSet(tree.Path()));
  EXPECT_FALSE(*LooksLikeShardSet(tree.Path("notes.txt")));
  EXPECT_FALSE(*LooksLikeShardSet(tree.Path("absent")));
  ExpectError(Locate(tree.Path(), std::nullopt), Errc::kNotFound, "no NxD shard set found");
  ExpectError(Locate(tree.Path("absent"), std::nullopt), Errc::kNotFound, "no such file or folder");
  ExpectError(Locate(tree.Path("notes.txt"), std::nullopt), Errc::kUnsupported,
              "an NxD shard set is a folder; this is a file");
}

TEST(Tags, TheHighestNumberIsTaken) {
  Tree tree;
  for (const char* tag : {"step_9", "step_10", "step_100"}) {
    tree.AddTag(tag).Add(std::string(tag) + "/done");
    tree.SetTime(std::string(tag) + "/done", 1000);
  }
  const SetLocation location = Found(tree.Path());
  EXPECT_EQ(location.tag, "step_100");
  EXPECT_EQ(location.choice, (Choice{tree.Path("step_100"), 3, "number"}));
  EXPECT_THAT(location.warnings, IsEmpty());
}

// As after cp -r, aws s3 sync and tar.
TEST(Tags, WhenTimesSayAnotherBothAreNamed) {
  Tree tree;
  for (const char* tag : {"step_9", "step_100"}) tree.AddTag(tag).Add(std::string(tag) + "/done");
  tree.SetTime("step_100/done", 1000);
  tree.SetTime("step_9/done", 2000);
  const SetLocation location = Found(tree.Path());
  EXPECT_EQ(location.tag, "step_100");
  EXPECT_THAT(location.warnings,
              ElementsAre(AllOf(HasSubstr("step_100 (1970-01-01 00:16:40) has the highest number, "
                                          "but step_9 was finished later (1970-01-01 00:33:20)"),
                                HasSubstr("--tag"))));
}

TEST(Tags, TheOneWhoseDoneIsNewestIsTakenWhereNamesDoNotTell) {
  Tree tree;
  for (const char* tag : {"a", "c", "b"}) tree.AddTag(tag).Add(std::string(tag) + "/done");
  tree.SetTime("a/done", 3000);
  tree.SetTime("c/done", 1000);
  tree.SetTime("b/done", 2000);
  EXPECT_EQ(Found(tree.Path()).tag, "a");
  EXPECT_EQ(Found(tree.Path()).choice, (Choice{tree.Path("a"), 3, "time"}));
  tree.SetTime("b/done", 3000, 1);
  EXPECT_EQ(Found(tree.Path()).tag, "b") << "by the nanosecond";
}

TEST(Tags, NoneIsTakenWhereNothingTells) {
  Tree tree;
  for (const char* tag : {"a", "b"}) {
    tree.AddTag(tag).Add(std::string(tag) + "/done");
    tree.SetTime(std::string(tag) + "/done", 1000);
  }
  const auto error =
      ExpectError(Locate(tree.Path(), std::nullopt), Errc::kUsage,
                  "neither names nor times tell which of 2 finished tags is the newest: a, b");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->hint(), "name one with --tag");
  EXPECT_EQ(Found(tree.Path(), "a").choice, (Choice{tree.Path("a"), 2, "option"}));
}

TEST(Tags, ALinkToANeighbourIsAnotherNameOfIt) {
  Tree tree;
  tree.AddTag("step_9").Add("step_9/done").AddTag("step_100").Add("step_100/done");
  for (const char* to : {"step_100", "./step_100/", "step_7"}) {  // the last does not exist
    fs::remove(tree.Path("latest"));
    fs::create_symlink(to, tree.Path("latest"));
    const SetLocation found = Found(tree.Path());
    EXPECT_EQ(found.tag, "step_100") << to;
    ASSERT_TRUE(found.choice) << to;
    EXPECT_EQ(found.choice->of, 2u) << to;
  }
}

TEST(Tags, WhatCannotBeLookedAtBesideANamedTagDoesNotCount) {
  Tree tree;
  tree.AddTag("step_9").Add("step_9/done").AddTag("step_100").Add("step_100/done");
  fs::create_symlink("/nowhere/at/all", tree.Path("step_200"));
  const auto error = ExpectError(Locate(tree.Path(), {}), Errc::kCorrupt, "");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), tree.Path("step_200"));
  EXPECT_EQ(error->hint(), "name one with --tag to skip this one");
  EXPECT_TRUE(*LooksLikeShardSet(tree.Path()));
  EXPECT_EQ(Found(tree.Path(), "step_100").tag, "step_100");
}

TEST(Tags, OneAloneIsNoChoice) {
  Tree tree;
  tree.AddTag("step_9").Add("step_9/done").AddTag("step_10");
  EXPECT_EQ(Found(tree.Path()).tag, "step_9");
  EXPECT_EQ(Found(tree.Path()).choice, std::nullopt);
}

TEST(Tags, UnfinishedOnesArePassedOverUnlessNamed) {
  Tree tree;
  tree.AddTag("step_1").Add("step_1/done").AddTag("step_2");
  EXPECT_EQ(Found(tree.Path()).tag, "step_1");
  for (const SetLocation& location : {Found(tree.Path(), "step_2"), Found(tree.Path("step_2")),
                                      Found(tree.Path("step_2/model"))}) {
    EXPECT_FALSE(location.finished);
    EXPECT_THAT(location.warnings, ElementsAre(HasSubstr("has no `done` marker")));
  }
}

TEST(Tags, OnlyUnfinishedOnesAreNamedInTheError) {
  Tree tree;
  tree.AddTag("step_1").AddTag("step_2").AddShards("converted/model", 1);
  const auto error =
      ExpectError(Locate(tree.Path(), std::nullopt), Errc::kCorrupt,
                  "no finished tag; without a `done` marker: converted, step_1, step_2");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), HasSubstr("--tag"));
}

// The trainer removes `done` first when it removes old tags, then the files.
TEST(Tags, AHalfRemovedOneIsAnIncompleteSet) {
  Tree tree;
  tree.Add("step_1/checkpoint").AddShards("step_1/model", 2);
  fs::remove(tree.Path("step_1/model/dp_rank_00_tp_rank_00_pp_rank_00.pt"));
  ExpectError(Locate(tree.Path(), "step_1"), Errc::kCorrupt, "missing tp_rank_00_pp_rank_00");
}

TEST(Tags, TheNewestFinishedOneWithoutModelIsNoReasonForAnOlderOne) {
  Tree tree;
  tree.AddTag("step_1").Add("step_1/done");
  tree.Add("step_2/checkpoint").Add("step_2/done");
  tree.Add("step_2/optim/dp_rank_00_tp_rank_00_pp_rank_00.pt");
  tree.SetTime("step_1/done", 1000);
  tree.SetTime("step_2/done", 2000);
  const auto error = ExpectError(Locate(tree.Path(), std::nullopt), Errc::kUnsupported,
                                 "optimizer state (optim/) only");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), tree.Path("step_2"));
}

TEST(Tags, OutputThatIsStillBeingBuiltIsNone) {
  Tree tree;
  tree.AddTag("step_1").Add("step_1/done").AddTag("step_2.partial").Add("step_2.partial/done");
  tree.SetTime("step_1/done", 1000);
  EXPECT_EQ(Found(tree.Path()).tag, "step_1");
  EXPECT_FALSE(Found(tree.Path("step_2.partial")).finished);
}

TEST(Tags, AFolderNamedDoneIsNoMarker) {
  Tree tree;
  tree.AddTag("step_1").Add("step_1/done/");
  ExpectError(Locate(tree.Path(), std::nullopt), Errc::kCorrupt, "without a `done` marker: step_1");
}

TEST(Tags, ANameThatIsNoFolderIsAUsageError) {
  Tree tree;
  tree.AddTag("step_1").Add("step_1/done");
  for (const char* tag : {"", ".", "..", "a/b", "step_1/"})
    ExpectError(Locate(tree.Path(), tag), Errc::kUsage, fmt::format("--tag \"{}\"", tag));
  const auto error =
      ExpectError(Locate(tree.Path(), "step_7"), Errc::kNotFound, "no tag \"step_7\"");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), tree.Path());
  EXPECT_EQ(error->hint(), "did you mean step_1?");
  tree.AddTag("step_2").Add("step_2/done");
  const auto number = ExpectError(Locate(tree.Path(), "10"), Errc::kNotFound, "no tag \"10\"");
  ASSERT_TRUE(number);
  EXPECT_EQ(number->hint(), "there are step_1, step_2");
}

TEST(Tags, AnEmptyTagHoldsNoShards) {
  Tree tree;
  tree.Add("step_1/checkpoint");
  ExpectError(Locate(tree.Path(), "step_1"), Errc::kNotFound,
              "the tag folder holds no shard files");
}

struct RefusedRow {
  const char* name;
  std::vector<std::string> entries;
  const char* path;
  const char* what;
  bool recognised_as_other = false;  // as another format
};

class RefusedByName : public ::testing::TestWithParam<RefusedRow> {};
TEST_P(RefusedByName, WithTheReason) {
  const RefusedRow& row = GetParam();
  Tree tree;
  for (const std::string& entry : row.entries) tree.Add(entry);
  const std::string path = tree.Path(row.path);
  EXPECT_FALSE(*LooksLikeShardSet(path));
  const auto error = ExpectError(Locate(path, std::nullopt), Errc::kUnsupported, row.what);
  ASSERT_TRUE(error);
  EXPECT_EQ(fs::weakly_canonical(error->file()), fs::weakly_canonical(path));
  if (!row.recognised_as_other) ExpectError(ops::Recognise(path), Errc::kUnsupported, row.what);
}
const std::string kOptim = "step_1/optim/dp_rank_00_tp_rank_00_pp_rank_00.pt";
INSTANTIATE_TEST_SUITE_P(
    Rows, RefusedByName,
    ::testing::Values(
        RefusedRow{"OptimizerFolder",
                   {kOptim, "step_1/" + kShard},
                   "step_1/optim",
                   "optimizer state (optim/); it holds no weights"},
        RefusedRow{"OptimizerFolderWithASlash", {kOptim}, "step_1/optim/", "optimizer state"},
        RefusedRow{
            "Zero1", {"optim/dp_rank_01_tp_rank_00_pp_rank_00.pt"}, "optim", "optimizer state"},
        RefusedRow{"TagWithOptimizerOnly", {kOptim}, "step_1", "optimizer state (optim/) only"},
        RefusedRow{"Dcp",
                   {"optim/.metadata", "optim/__0_0.distcp"},
                   "optim",
                   "a torch distributed checkpoint (.metadata and .distcp files)",
                   true},
        RefusedRow{"Merged",
                   {"optim/full_tp_rank_00_pp_rank_00.pt"},
                   "optim",
                   "a merged ZeRO-1 optimizer"},
        RefusedRow{"Legacy", {"optim.dp_rank_00.tp_rank_00"}, "", "a legacy ZeRO-1 optimizer"},
        RefusedRow{"Lora", {"lora/adapter_model.pt"}, "lora", "a LoRA adapter"},
        RefusedRow{"LoraConfig", {"lora/adapter_config.json"}, "lora", "a LoRA adapter"},
        RefusedRow{"InferencePreShard",
                   {"tp0_sharded_checkpoint.safetensors"},
                   "",
                   "weights sharded for inference",
                   true}),
    [](const auto& row) { return row.param.name; });

TEST(RefusedNames, WhatLiesBesideTheWeightsIsPassedOver) {
  Tree tree;
  tree.AddTag("step_1").Add("step_1/done").Add(kOptim);
  tree.Add("step_1/scheduler.pt").Add("step_1/user_content.pt");
  EXPECT_EQ(Found(tree.Path()).files.size(), 1u);
  EXPECT_TRUE(RefuseByName(tree.Path("step_1/model")).ok());
}

// NxDT: the checkpoint folder of PyTorch Lightning is the tag.
TEST(Places, AnNxdtCheckpointIsATag) {
  Tree tree;
  const std::string tag = "checkpoints/llama--step=5-consumed_samples=160.0.ckpt";
  tree.AddTag(tag).Add(tag + "/done").Add(tag + "/user_content.pt");
  EXPECT_EQ(Found(tree.Path("checkpoints")).tag, "llama--step=5-consumed_samples=160.0.ckpt");
  EXPECT_EQ(Found(tree.Path(tag + "/")).tag, "llama--step=5-consumed_samples=160.0.ckpt");
}

// optimum-neuron's trainer: the tag is named shards.
TEST(Places, AnOptimumTrainingCheckpointIsARoot) {
  Tree tree;
  tree.AddTag("checkpoint-10/shards").Add("checkpoint-10/shards/done");
  tree.Add("checkpoint-10/shards/mp_metadata_pp_rank_0.json");
  EXPECT_EQ(Found(tree.Path("checkpoint-10")).tag, "shards");
}

}  // namespace
}  // namespace nxdkit::nxd
