// nxd-reshard as a command: a tag with its optimizer resharded and back, its messages, and refused
// inputs.
#include "formats/torch/archive.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/reshard/training_tag.h"
#include "tests/tools/convert_workshop.h"
#include "tests/tools/man_page.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::TagDifference;
using testing_util::TrainingTag;
using testing_util::WriteTrainingTag;

ProcessResult Reshard(const std::string& options, const std::string& input,
                      const std::string& output) {
  Words words = {Workshop::Tool("nxd-reshard"), "--no-sync"};
  for (const std::string& word : Split(options)) words.push_back(word);
  words.push_back(input);
  words.push_back(output);
  return RunProcess(words);
}

TrainingTag Tp2Dp3() {
  TrainingTag tag;
  tag.geometry.tp = 2;
  tag.dp = 3;
  return tag;
}

TEST(Reshard, ThereAndBackIsTheSameTag) {
  const Workshop shop;
  WriteTrainingTag(shop / "a", Tp2Dp3());
  const ProcessResult there = Reshard(
      "--tp 8 --kv-multiplier 2 --hw trn2 --pp 2 --dp 2 --xser --verify", shop / "a", shop / "b");
  ASSERT_EQ(there.exit_code, 0) << there.err;
  EXPECT_THAT(there.out, HasSubstr("optimizer: ZeRO-1 dp 3 to ZeRO-1 dp 2; parameter order "
                                   "\"norms\"; step, exp_avg, exp_avg_sq, sharded_master_weights"));
  EXPECT_THAT(there.out, HasSubstr("verified"));
  const ProcessResult back = Reshard(
      "--tp 2 --kv-multiplier 1 --qkv separate --pp 1 --dp 3 --no-xser", shop / "b", shop / "c");
  ASSERT_EQ(back.exit_code, 0) << back.err;
  EXPECT_EQ(TagDifference(shop / "a", shop / "c"), "");
}

// Damage in the optimizer's own bytes: only the archive's checksum shows it.
TEST(Reshard, VerifyReadsTheChecksumsOfTheOptimizerToo) {
  for (const bool xser : {false, true}) {
    const Workshop shop;
    TrainingTag tag = Tp2Dp3();
    tag.xser = xser;
    WriteTrainingTag(shop / "a", tag);
    const std::string main = shop / "a/optim/dp_rank_01_tp_rank_00_pp_rank_00.pt";
    const std::string damaged = xser ? main + ".tensors/tensor_1.pt" : main;
    const Result<torch::Archive> archive = torch::ReadArchive(damaged);
    ASSERT_TRUE(archive.ok()) << archive.error().ToString();
    testing_util::FlipFile(damaged, archive->tensors.front().storage->file_offset() + 1);
    const ProcessResult found = Reshard("--dp 2 --verify", shop / "a", shop / "b");
    EXPECT_EQ(found.exit_code, 3) << found.out;
    EXPECT_THAT(found.err, HasSubstr(damaged));
    EXPECT_FALSE(Traces(shop / "b"));
  }
}

// A dead mount or a partial copy must not give a tag without its optimizer.
TEST(Reshard, AnOptimizerThatCannotBeLookedAtIsNotMissing) {
  const Workshop shop;
  WriteTrainingTag(shop / "a", Tp2Dp3());
  const std::string optim = shop / "a/optim";
  std::filesystem::rename(optim, shop / "aside");
  for (const std::string target : {"nowhere", "optim", "done"}) {
    std::filesystem::remove(optim);
    std::filesystem::create_symlink(target, optim);
    const ProcessResult reshard = Reshard("--dp 2", shop / "a", shop / "b");
    EXPECT_EQ(reshard.exit_code, 3) << target << reshard.out;
    EXPECT_THAT(reshard.err, HasSubstr("nxd-reshard: error: " + optim)) << target;
    const ProcessResult to_dcp = Workshop::Convert("--to dcp", shop / "a", shop / "b");
    EXPECT_EQ(to_dcp.exit_code, 3) << target << to_dcp.out;
    EXPECT_THAT(to_dcp.err, HasSubstr(optim)) << target;
    const ProcessResult verify = Workshop::Verify(shop / "a");
    EXPECT_EQ(verify.exit_code, 1) << target << verify.out;  // a finding
    EXPECT_THAT(verify.out + verify.err, HasSubstr(optim)) << target;
    EXPECT_FALSE(Traces(shop / "b")) << target;
  }
  std::filesystem::remove(optim);
  EXPECT_EQ(Reshard("--tp 1 --no-optimizer", shop / "a", shop / "b").exit_code, 0);
}

TEST(Reshard, InPartsTheTagIsTheSame) {
  const Workshop shop;
  WriteTrainingTag(shop / "a", Tp2Dp3());
  ASSERT_EQ(Reshard("--tp 4 --dp 2", shop / "a", shop / "whole").exit_code, 0);
  for (const char* part : {"2/3", "0/3", "1/3"}) {
    const ProcessResult result =
        Reshard(std::string("--tp 4 --dp 2 --json --part ") + part, shop / "a", shop / "parts");
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(JsonOf(result)["part"]["published"], std::string(part) == "1/3");
  }
  ExpectSameTree(shop / "whole", shop / "parts");
  // A requeued job runs the same command line again.
  for (const char* part : {"--part 1/3 --resume", "--part 0/3", "--resume"}) {
    const ProcessResult again =
        Reshard(std::string("--tp 4 --dp 2 --json ") + part, shop / "a", shop / "parts");
    ASSERT_EQ(again.exit_code, 0) << again.err;
    EXPECT_EQ(JsonOf(again)["already_published"], true) << part;
  }
  ExpectSameTree(shop / "whole", shop / "parts");
}

TEST(Reshard, GivesTheSameBytesWithAnyNumberOfThreads) {
  const Workshop shop;
  WriteTrainingTag(shop / "a", Tp2Dp3());
  for (const char* jobs : {"1", "3"}) {
    const ProcessResult result = Reshard(std::string("--dp 4 -j ") + jobs, shop / "a", shop / jobs);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  ExpectSameTree(shop / "1", shop / "3");
}

TEST(Reshard, SaysInJsonWhatBecameOfTheOptimizer) {
  const Workshop shop;
  WriteTrainingTag(shop / "a", Tp2Dp3());
  const ProcessResult result = Reshard("--tp 4 --dp 2 --json", shop / "a", shop / "b");
  const Json json = JsonOf(result);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      UndocumentedPaths(json, ManJsonPaths(ReadFile(NXDKIT_SOURCE_DIR "/man/nxd-reshard.1"))),
      IsEmpty());
  EXPECT_EQ(json["tp"], 4);
  EXPECT_EQ(json["optimizer"]["input_dp"], 3);
  EXPECT_EQ(json["optimizer"]["output_dp"], 2);
  EXPECT_EQ(json["optimizer"]["param_order"], "norms");
}

TEST(Reshard, LeavesTheOptimizerOutOnPurpose) {
  const Workshop shop;
  WriteTrainingTag(shop / "a", Tp2Dp3());
  const ProcessResult result = Reshard("--tp 4 --no-optimizer", shop / "a", shop / "b");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(std::filesystem::exists(shop / "b/optim"));
  EXPECT_TRUE(std::filesystem::exists(shop / "b/scheduler.pt"));
  EXPECT_EQ(Reshard("--no-optimizer --dp 2", shop / "a", shop / "c").exit_code, 2);
}

TEST(Reshard, RefusesStateThatIsNotWhole) {
  const Workshop shop;
  WriteTrainingTag(shop / "a", Tp2Dp3());
  for (const char* name :
       {"dp_rank_02_tp_rank_00_pp_rank_00.pt", "dp_rank_02_tp_rank_01_pp_rank_00.pt"})
    std::filesystem::remove(shop / ("a/optim/" + std::string(name)));
  const ProcessResult result = Reshard("--dp 2", shop / "a", shop / "b");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("context parallel"));
  EXPECT_THAT(result.err, HasSubstr("hint: --no-optimizer leaves"));
  EXPECT_FALSE(Traces(shop / "b"));
}

// --- state that it refuses, ckpt-verify reports

TrainingTag WithCopies() {
  TrainingTag tag;
  tag.geometry.tp = 8;
  tag.geometry.kv_multiplier = 2;
  tag.geometry.qkv = nxd::QkvStyle::kLinear;
  return tag;
}

void FlipIn(testing_util::FileDraft& draft, size_t pid, const std::string& name, size_t byte) {
  using testing_util::FileDraft;
  char& changed = draft.TensorOf(FileDraft::At(draft.State(pid), name)).bytes[byte];
  changed = static_cast<char>(changed ^ 1);
}

void ExpectFoundByBoth(const Workshop& shop, const std::string& part) {
  const ProcessResult reshard = Reshard("--dp 2", shop / "a", shop / "b");
  EXPECT_EQ(reshard.exit_code, 3) << reshard.out;
  EXPECT_THAT(reshard.err, HasSubstr(part));
  EXPECT_THAT(reshard.err, HasSubstr("hint: ckpt-verify shows all of it"));
  const ProcessResult verify = Workshop::Verify(shop / "a");
  EXPECT_EQ(verify.exit_code, 1) << verify.out << verify.err;
  EXPECT_THAT(verify.out, HasSubstr(part));
  EXPECT_THAT(verify.out, HasSubstr("1 finding\n"));
}

TEST(Reshard, VerifyReadsTheOptimizerOfATag) {
  const Workshop shop;
  TrainingTag tag = WithCopies();
  tag.rounded = true;
  WriteTrainingTag(shop / "a", tag);
  const ProcessResult good = Workshop::Verify(shop / "a");
  EXPECT_EQ(good.exit_code, 0) << good.out << good.err;
  EXPECT_THAT(good.out, HasSubstr("ok: the optimizer's state (zero1, dp 1, order \"norms\") is "
                                  "complete, copies are bit-equal, padding is zero\nok: the "
                                  "weights are the master weights, rounded to nearest even\n"));
  EXPECT_EQ(good.err, "");
}

TEST(Reshard, VerifyNamesAWeightThatIsNotItsMaster) {
  const Workshop shop;
  TrainingTag tag = Tp2Dp3();
  tag.rounded = true;
  tag.change = [](testing_util::FileDraft& draft) {
    if (draft.is_optimizer() || draft.tp != 1) return;
    draft.tensors[2].bytes[6] ^= 1;
  };
  WriteTrainingTag(shop / "a", tag);
  const ProcessResult found = Workshop::Verify(shop / "a");
  EXPECT_EQ(found.exit_code, 0) << found.out << found.err;
  EXPECT_THAT(found.err,
              HasSubstr("1 of the model's tensors are not their master weights rounded"));
  EXPECT_THAT(found.err, HasSubstr("dp_rank_00_tp_rank_01_pp_rank_00.pt"));
  EXPECT_THAT(found.err, HasSubstr("1 element is not the master weight rounded to nearest even"));
}

TEST(Reshard, VerifyFindsACopyOfTheStateThatDiffers) {
  const Workshop shop;
  TrainingTag tag = WithCopies();
  tag.change = [](testing_util::FileDraft& draft) {
    if (draft.is_optimizer() && draft.tp == 7) FlipIn(draft, 2, "exp_avg_sq", 0);
  };
  WriteTrainingTag(shop / "a", tag);
  ExpectFoundByBoth(shop,
                    "differs from the other copy of "
                    "model.layers.0.self_attn.k_proj.weight/exp_avg_sq");
}

// With 5 data parallel ranks each has 3 rows of a tensor of 12: the last one has only padding.
TEST(Reshard, VerifyFindsPaddingOfTheStateThatIsNotZero) {
  const Workshop shop;
  TrainingTag tag = Tp2Dp3();
  tag.dp = 5;
  tag.change = [](testing_util::FileDraft& draft) {
    if (!draft.is_optimizer() || draft.tp != 1 || draft.dp != 4) return;
    const auto& tensor =
        draft.TensorOf(testing_util::FileDraft::At(draft.State(0), "exp_avg")).bytes;
    FlipIn(draft, 0, "exp_avg", tensor.size() - 1);
  };
  WriteTrainingTag(shop / "a", tag);
  ExpectFoundByBoth(shop, "1 element of padding must be 0");
}

TEST(Reshard, VerifySaysThatAFormItCannotMapIsNotChecked) {
  const Workshop shop;
  TrainingTag tag = Tp2Dp3();
  tag.form = "none";
  WriteTrainingTag(shop / "a", tag);
  shop.Write("a/optim.dp_rank_00.tp_rank_00", "state");
  const ProcessResult verify = Workshop::Verify(shop / "a");
  EXPECT_EQ(verify.exit_code, 0) << verify.out;
  EXPECT_THAT(verify.err, HasSubstr("the optimizer's state is not checked: "));
  EXPECT_THAT(verify.err, HasSubstr("a legacy ZeRO-1 optimizer"));
  const ProcessResult reshard = Reshard("--dp 2", shop / "a", shop / "b");
  EXPECT_EQ(reshard.exit_code, 4) << reshard.out;
  EXPECT_THAT(reshard.err, HasSubstr("hint: --no-optimizer leaves"));
}

TEST(Reshard, DoesNotReplaceAPartOfItsInput) {
  const Workshop shop;
  WriteTrainingTag(shop / "a", Tp2Dp3());
  for (const char* output : {"a", "a/optim", "a/model"}) {
    const ProcessResult result = Reshard("--dp 2 --force", shop / "a", shop / output);
    EXPECT_EQ(result.exit_code, 2) << output << result.err;
  }
  EXPECT_TRUE(std::filesystem::exists(shop / "a/optim/dp_rank_02_tp_rank_01_pp_rank_00.pt"));
}

}  // namespace
}  // namespace nxdkit::test
