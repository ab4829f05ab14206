// All commands on a torch distributed checkpoint, read and written, as a user meets them: with
// weights, and with the state of an optimizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/dcp/folder.h"
#include "tests/formats/compiled_blob.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/reshard/training_tag.h"
#include "tests/tools/convert_workshop.h"
#include "tests/tools/man_page.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

ProcessResult RunTool(const std::string& name, const std::string& words) {
  Words line = {Workshop::Tool(name)};
  for (const std::string& word : Split(words)) line.push_back(word);
  return RunProcess(line);
}

class DcpTools : public ::testing::Test {
 protected:
  DcpTools() {
    ExpectConverts("--from hf --to dcp --style torchtitan --mesh dp=2,tp=2", model_, dcp_);
  }

  const Workshop shop_;
  const std::string model_ = shop_.MakeModel("model", testing_util::TinyLlama());
  const std::string dcp_ = shop_ / "dcp";
};

TEST_F(DcpTools, DiffSeesEqualWeights) {
  const ProcessResult result = RunTool("ckpt-diff", model_ + " " + dcp_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("equal: 39 parameters, "));
}

TEST_F(DcpTools, DiffShowsOneChangedElement) {
  const auto folder = dcp::Open(dcp_);
  ASSERT_TRUE(folder.ok());
  const StoredTensor& norm = folder->tensors.back().chunks.back().stored;
  testing_util::FlipStored(*norm.storage, norm.offset);
  const ProcessResult result = RunTool("ckpt-diff", "--json " + model_ + " " + dcp_);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const Json json = JsonOf(result);
  EXPECT_EQ(json["b_kind"], "dcp");
  EXPECT_EQ(json["total"]["changed"], 1);
  EXPECT_EQ(json["total"]["ulps"][0]["max_ulp"], 1);
}

TEST_F(DcpTools, DigestIsTheLineOfEveryLayout) {
  ExpectConverts("--from dcp --to nxd --tp 4 --hw trn1", dcp_, shop_ / "set");
  const Json of_model = JsonOf(RunTool("ckpt-digest", "--json " + model_));
  for (const std::string& path : {dcp_, shop_ / "set"}) {
    const ProcessResult result = RunTool("ckpt-digest", "--json " + path);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(JsonOf(result)["digest"], of_model["digest"]) << path;
  }
}

TEST_F(DcpTools, PackTakesItThereAndBack) {
  ASSERT_EQ(RunTool("ckpt-pack", dcp_ + " " + (shop_ / "dcp.tar.zst")).exit_code, 0);
  const ProcessResult back =
      RunTool("ckpt-pack", "--unpack " + (shop_ / "dcp.tar.zst") + " " + (shop_ / "back"));
  EXPECT_EQ(back.exit_code, 0) << back.err;
  ExpectSameTree(dcp_, shop_ / "back");
}

TEST_F(DcpTools, ADeltaIsMadeOfTwoAndApplied) {
  const std::string next = shop_.MakeModel("next", testing_util::TinyLlama(), "--seed 9");
  ExpectConverts("--from hf --to dcp", next, shop_ / "dcp2");
  ExpectConverts("--to delta --base " + dcp_, shop_ / "dcp2", shop_ / "step.delta");
  ExpectConverts("--from delta --to hf --base " + dcp_, shop_ / "step.delta", shop_ / "hf2");
  EXPECT_EQ(RunTool("ckpt-diff", next + " " + (shop_ / "hf2")).exit_code, 0);
  ExpectConverts("--from delta --to dcp --mesh dp=3 --base " + dcp_, shop_ / "step.delta",
                 shop_ / "dcp3");
  EXPECT_EQ(RunTool("ckpt-diff", next + " " + (shop_ / "dcp3")).exit_code, 0);
}

TEST_F(DcpTools, ItsWeightsGoIntoABundle) {
  const std::string old = shop_.MakeModel("old", testing_util::TinyLlama(), "--seed 9");
  const std::string bundle = shop_ / "bundle";
  ExpectConverts("--from hf --to rollout --tp 4 --bs 8", old, bundle);
  shop_.Write("bundle/model.pt", testing_util::CompiledBlob());
  ExpectConverts("--from dcp --to rollout --into --verify", dcp_, bundle);
  EXPECT_EQ(Workshop::Verify(bundle, "--against " + model_).exit_code, 0);
}

// torch loads a folder whole: its weights cannot be replaced in place.
TEST_F(DcpTools, IntoItIsRefused) {
  const Tree before = ReadTree(dcp_);
  const ProcessResult result = Workshop::Convert("--from hf --to dcp --into", model_, dcp_);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("only the weights of a rollout bundle can be replaced"));
  EXPECT_TRUE(ReadTree(dcp_) == before);
}

TEST_F(DcpTools, DryRunWritesNothingAndSaysWhatWouldBe) {
  const Json dry = JsonOf(
      Workshop::Convert("--from hf --to dcp --chunks 3 --dry-run --json", model_, shop_ / "out"));
  EXPECT_EQ(dry["dry_run"], true);
  EXPECT_FALSE(Traces(shop_ / "out"));
  const Json real =
      JsonOf(Workshop::Convert("--from hf --to dcp --chunks 3 --json", model_, shop_ / "out"));
  for (const char* key : {"output_bytes", "output_files", "output_tensors", "parameters", "notes"})
    EXPECT_EQ(dry[key], real[key]) << key;
  EXPECT_EQ(real["output_files"], 3);
}

TEST_F(DcpTools, ExplainSaysWhereAChunkComesFrom) {
  const ProcessResult there = Workshop::Convert(
      "--from hf --to dcp --style torchtitan --mesh dp=2 --explain layers.0.feed_forward.w2.weight",
      model_, shop_ / "out");
  EXPECT_EQ(there.exit_code, 0) << there.err;
  EXPECT_THAT(there.out, AllOf(HasSubstr("__0_0.distcp"), HasSubstr("__1_0.distcp"),
                               HasSubstr("model.layers.0.mlp.down_proj.weight")));
  EXPECT_FALSE(Traces(shop_ / "out"));
  const ProcessResult back = Workshop::Convert(
      "--from dcp --to hf --explain model.layers.0.mlp.down_proj.weight", dcp_, shop_ / "out");
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_THAT(back.out,
              AllOf(HasSubstr("__3_0.distcp"), HasSubstr("layers.0.feed_forward.w2.weight")));
}

// --- with an optimizer's state

testing_util::TrainingTag Tp2Dp3() {
  testing_util::TrainingTag tag;
  tag.geometry.tp = 2;
  tag.dp = 3;
  return tag;
}

class DcpState : public ::testing::Test {
 protected:
  DcpState() {
    testing_util::WriteTrainingTag(tag_, Tp2Dp3());
    ExpectConverts(kThere, tag_, dcp_);
  }
  static constexpr const char* kThere = "--from nxd --to dcp --style torchtitan --mesh dp=2,tp=2";
  static constexpr const char* kBack = "--from dcp --to nxd --tp 2 --dp 3 --hw trn1";

  // Runs nxd-reshard, expects the code, and checks the JSON against the man page.
  Json Reshard(int exit_code, const std::string& options, const std::string& input,
               const std::string& output) const {
    const ProcessResult result =
        RunTool("nxd-reshard", "--no-sync --json " + options + " " + input + " " + output);
    EXPECT_EQ(result.exit_code, exit_code) << options << result.out << result.err;
    const Json json = JsonOf(result);
    const Names documented = ManJsonPaths(ReadFile(NXDKIT_SOURCE_DIR "/man/nxd-reshard.1"));
    EXPECT_THAT(UndocumentedPaths(json, documented), IsEmpty()) << options;
    return json;
  }

  const Workshop shop_;
  const std::string tag_ = shop_ / "tag";
  const std::string dcp_ = shop_ / "dcp";
};

TEST_F(DcpState, IsMadeInPartsAndGoesBackInParts) {
  for (const char* part : {"--part 1/2", "--part 0/2"})
    ExpectConverts(std::string(kThere) + " " + part, tag_, shop_ / "parts");
  ExpectSameTree(dcp_, shop_ / "parts");
  ExpectConverts(kBack, dcp_, shop_ / "back");
  for (const char* part : {"--part 2/3", "--part 0/3", "--part 1/3"})
    ExpectConverts(std::string(kBack) + " " + part, dcp_, shop_ / "back-parts");
  ExpectSameTree(shop_ / "back", shop_ / "back-parts");
}

TEST_F(DcpState, WhatIsThereIsComparedByResume) {
  const Json there =
      JsonOf(Workshop::Convert(std::string(kThere) + " --resume --json", tag_, dcp_));
  EXPECT_EQ(there["already_published"], true);
  const auto folder = dcp::Open(dcp_);
  ASSERT_TRUE(folder.ok());
  for (const dcp::StoredEntry& entry : folder->tensors)
    if (entry.key == "optimizer.state.norm.weight.exp_avg") {
      const StoredTensor& stored = entry.chunks.front().stored;
      testing_util::FlipFile(stored.storage->path(), stored.storage->file_offset() + stored.offset);
    }
  const ProcessResult changed = Workshop::Convert(std::string(kThere) + " --resume", tag_, dcp_);
  EXPECT_EQ(changed.exit_code, 2) << changed.err;
  EXPECT_THAT(changed.err, AllOf(HasSubstr("the output exists and is not what this command makes"),
                                 HasSubstr("optimizer.state.norm.weight.exp_avg: offset")));
}

TEST_F(DcpState, ExplainSaysWhereAMomentComesFrom) {
  const ProcessResult there = Workshop::Convert(
      std::string(kThere) + " --explain optimizer.state.norm.weight.exp_avg", tag_, shop_ / "out");
  EXPECT_EQ(there.exit_code, 0) << there.err;
  EXPECT_THAT(there.out, HasSubstr("optim/dp_rank_02_tp_rank_00_pp_rank_00.pt"));
  const ProcessResult back = Workshop::Convert(
      std::string(kBack) + " --explain model.norm.weight/exp_avg", dcp_, shop_ / "out");
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_THAT(back.out, HasSubstr("optimizer.state.norm.weight.exp_avg"));
  EXPECT_FALSE(Traces(shop_ / "out"));
}

TEST_F(DcpState, DryRunSaysWhatWouldBe) {
  const Json dry =
      JsonOf(Workshop::Convert(std::string(kBack) + " --dry-run --json", dcp_, shop_ / "out"));
  EXPECT_FALSE(Traces(shop_ / "out"));
  const Json real = JsonOf(Workshop::Convert(std::string(kBack) + " --json", dcp_, shop_ / "out"));
  EXPECT_EQ(dry["output_bytes"], real["output_bytes"]);
  EXPECT_EQ(dry["notes"], real["notes"]);
}

TEST_F(DcpState, DiffComparesItWithTheTags) {
  const ProcessResult same = RunTool("ckpt-diff", "--optimizer " + tag_ + " " + dcp_);
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_THAT(same.out, StartsWith("equal: "));
  const auto folder = dcp::Open(dcp_);
  ASSERT_TRUE(folder.ok());
  for (const dcp::StoredEntry& entry : folder->tensors)
    if (entry.key == "optimizer.state.norm.weight.step") {
      const StoredTensor& stored = entry.chunks.front().stored;
      testing_util::FlipStored(*stored.storage, stored.offset + 2);
    }
  const ProcessResult changed = RunTool("ckpt-diff", "--optimizer --json " + tag_ + " " + dcp_);
  EXPECT_EQ(changed.exit_code, 1) << changed.err;
  const Json json = JsonOf(changed);
  ASSERT_EQ(json["tensors"].size(), 1u);
  EXPECT_EQ(json["tensors"][0]["name"], "model.norm.weight/step");
  const std::string page = RunTool("ckpt-diff", "--optimizer --html - " + tag_ + " " + dcp_).out;
  EXPECT_THAT(page, HasSubstr("<span>moved most</span><b>none moved</b>")) << "of the weights";
  EXPECT_THAT(page, HasSubstr("are of the weights alone"));
  EXPECT_EQ(RunTool("ckpt-diff", "--max-ulp 0 " + dcp_ + " " + dcp_).exit_code, 0);
}

TEST_F(DcpTools, DiffOfStateNeedsSome) {
  const ProcessResult result = RunTool("ckpt-diff", "--optimizer " + model_ + " " + dcp_);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr(model_ + ": there is no optimizer's state to compare"));
}

TEST_F(DcpState, IsCutAnewByReshard) {
  const Json json = Reshard(0, "--to dcp --mesh dp=3 --verify", dcp_, shop_ / "recut");
  EXPECT_EQ(json["to"], "dcp");
  EXPECT_EQ(json["mesh"], (Json{{"dp", 3}, {"tp", 1}}));
  EXPECT_EQ(json["output_files"], 3);
  EXPECT_EQ(json["optimizer"]["output_style"], "dcp");
  EXPECT_TRUE(json["optimizer"]["param_order"].is_null());
  // Names are kept, and cut as before it is the same as before.
  Reshard(0, "--to dcp --mesh dp=2,tp=2", shop_ / "recut", shop_ / "again");
  ExpectSameTree(dcp_, shop_ / "again");
  Reshard(0, "--tp 2 --dp 3 --hw trn1", shop_ / "recut", shop_ / "back");
  ExpectConverts(kBack, dcp_, shop_ / "back2");
  ExpectSameTree(shop_ / "back", shop_ / "back2");
}

TEST_F(DcpState, IsCutAnewInPartsAndInTheSameBytes) {
  Reshard(0, "--to dcp --chunks 4 -j 1", dcp_, shop_ / "whole");
  for (const char* part : {"--part 1/2", "--part 0/2"})
    Reshard(0, std::string("--to dcp --chunks 4 -j 3 ") + part, dcp_, shop_ / "parts");
  ExpectSameTree(shop_ / "whole", shop_ / "parts");
  EXPECT_EQ(Reshard(0, "--to dcp --chunks 4 --resume", dcp_, shop_ / "parts")["already_published"],
            true);
}

TEST_F(DcpState, ReshardRefusesATagAsACheckpoint) {
  const Json json = Reshard(2, "--to dcp --mesh dp=2", tag_, shop_ / "out");
  EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr("INPUT is an NxD tag"));
  EXPECT_THAT(json["error"]["hint"].get<std::string>(),
              HasSubstr("nxd-convert --from nxd --to dcp"));
}

// Files called model_0.pt may belong to any program: --to dcp decides.
TEST_F(DcpState, ReshardTakesAFolderThatNothingNames) {
  Reshard(0, "--to dcp --mesh dp=2", NXDKIT_TESTDATA "/dcp/forms/own", shop_ / "recut");
  EXPECT_TRUE(fs::exists(shop_ / "recut/__1_0.distcp"));
  const Json json = Reshard(3, "--tp 1", NXDKIT_TESTDATA "/dcp/forms/own", shop_ / "tag");
  EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr("no NxD shard set"));
}

TEST_F(DcpState, InspectTakesAFolderThatNothingNames) {
  const std::string folder = NXDKIT_TESTDATA "/dcp/forms/own";
  const ProcessResult found = RunTool("ckpt-inspect", "--from dcp " + folder);
  EXPECT_EQ(found.exit_code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("files of ranks (torch_checkpointing)"));
  EXPECT_EQ(RunTool("ckpt-inspect", folder).exit_code, 4);
}

TEST_F(DcpState, ReshardSaysThatAPathIsNotThere) {
  const Json json = Reshard(3, "--to dcp --mesh dp=2", shop_ / "nothing", shop_ / "out");
  EXPECT_EQ(json["error"]["file"], shop_ / "nothing");
  EXPECT_EQ(json["error"]["message"], "no such file or folder");
}

TEST_F(DcpState, ReshardOfNamesHasNoOrderOfNumbers) {
  const ProcessResult result =
      RunTool("nxd-reshard", "--to dcp --mesh dp=3 " + dcp_ + " " + (shop_ / "recut"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("optimizer: dcp to dcp; step, exp_avg"));
}

TEST_F(DcpState, ReshardRefusesOptionsOfTheOtherFormat) {
  for (const auto& [options, part] :
       {std::pair{"--to dcp --dp 2", "--dp shards the state of an NxD tag"},
        {"--to dcp --tp 2", "--tp does not apply to a conversion from dcp to dcp"},
        {"--to dcp --param-order one", "--param-order does not apply"},
        {"--mesh dp=2", "--mesh does not apply to a conversion from dcp to nxd"}})
    EXPECT_THAT(Reshard(2, options, dcp_, shop_ / "out")["error"]["message"].get<std::string>(),
                HasSubstr(part));
}

}  // namespace
}  // namespace nxdkit::test
