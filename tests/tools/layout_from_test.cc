// --layout-from, --nodes and the vendor's option names, on the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;

class LayoutFrom : public ::testing::Test {
 protected:
  // A configuration of NxD Training that names another model.
  std::string Yaml(const std::string& tp = "4") const {
    return workshop_.Write("conf/llama.yaml",
                           "trainer:\n  devices: 32\n  num_nodes: 2\n"
                           "exp_manager:\n  save_xser: True\n"
                           "distributed_strategy:\n  tensor_model_parallel_size: " +
                               tp +
                               "\n  zero1: True\n"
                               "data:\n  micro_batch_size: 2\n  seq_length: 64\n"
                               "model:\n  model_config: other.json\n  qkv_linear: False\n");
  }
  static size_t MainFiles(const std::string& set) {
    size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(set + "/model"))
      files += entry.is_regular_file() && entry.path().string().ends_with("pp_rank_00.pt") ? 1 : 0;
    return files;
  }

  const Workshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyMha());
  const std::string set_ = workshop_ / "set";
};

TEST_F(LayoutFrom, SaysWhatNoOptionSays) {
  ExpectConverts("--from hf --to nxd --layout-from " + Yaml(), model_, set_);
  EXPECT_EQ(MainFiles(set_), 4u);
  EXPECT_TRUE(std::filesystem::exists(set_ + "/model/dp_rank_00_tp_rank_00_pp_rank_00.pt.tensors"));
  const std::string two = workshop_ / "two";
  ExpectConverts("--from hf --to nxd --tp 2 --no-xser --layout-from " + Yaml(), model_, two);
  EXPECT_EQ(MainFiles(two), 2u);
  EXPECT_FALSE(std::filesystem::exists(two + "/model/dp_rank_00_tp_rank_00_pp_rank_00.pt.tensors"));
}

// The file describes the training; the files next to the shards describe these shards.
TEST_F(LayoutFrom, ItsModelIsOnlyForAnInputWithout) {
  const std::string yaml = Yaml();
  const std::string other = workshop_.MakeModel("other", testing_util::TinyQwen2());
  ExpectConverts("--from hf --to nxd --layout-from " + yaml, model_, set_);
  std::filesystem::copy(other + "/config.json", workshop_ / "conf/other.json");
  ExpectConverts("--from nxd --to hf --layout-from " + yaml, set_, workshop_ / "back");
  EXPECT_EQ(Workshop::Verify(workshop_ / "back", "--against " + model_).exit_code, 0);
  std::filesystem::remove(set_ + "/config.json");
  std::filesystem::copy(model_ + "/config.json", workshop_ / "conf/other.json",
                        std::filesystem::copy_options::overwrite_existing);
  ExpectConverts("--from nxd --to hf --layout-from " + yaml, set_, workshop_ / "again");
  EXPECT_EQ(Workshop::Verify(workshop_ / "again", "--against " + model_).exit_code, 0);
}

TEST_F(LayoutFrom, SaysWhatAStepTakes) {
  const ProcessResult result =
      RunProcess({Workshop::Tool("nxd-convert"), "--dry-run", "--from", "hf", "--to", "nxd",
                  "--instance", "trn1.32xlarge", "--layout-from", Yaml("8"), model_, set_});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err + result.out,
              HasSubstr("note: this is for micro-batches of 128 tokens, ZeRO-1 over 4 data "
                        "parallel ranks, mixed precision, activations recomputed selectively"));
}

// --seq from the training, and --hw from --instance.
TEST_F(LayoutFrom, AnInstanceSettlesTheHardware) {
  const std::string grouped = workshop_.MakeModel("grouped", testing_util::TinyLlama());
  ExpectConverts(
      "--from hf --to nxd --tp 4 --kv-multiplier 2 --qkv linear --instance trn2.48xlarge", grouped,
      set_);
  EXPECT_THAT(RunProcess({Workshop::Tool("ckpt-inspect"), "--json", set_}).out,
              HasSubstr("\"hw\":\"trn2\""));
  ExpectRefused("--from hf --to nxd --tp 2 --hw trn2 --instance trn1.32xlarge", model_,
                workshop_ / "no", 2, "hw trn2 does not match --instance trn1.32xlarge");
  const ProcessResult longer =
      RunProcess({Workshop::Tool("nxd-convert"), "--dry-run", "--from", "hf", "--to", "nxd", "--tp",
                  "2", "--instance", "trn1.32xlarge", "--seq", "8192", model_, workshop_ / "no"});
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_THAT(longer.err + longer.out, HasSubstr("this is for micro-batches of 8192 tokens"));
  const ProcessResult both = RunProcess(
      {Workshop::Tool("nxd-convert"), "--dry-run", "--from", "hf", "--to", "nxd", "--instance",
       "trn1.32xlarge", "--seq", "8192", "--layout-from", Yaml("8"), model_, workshop_ / "no"});
  EXPECT_THAT(both.err + both.out, HasSubstr("this is for micro-batches of 16384 tokens"))
      << "two sequences, by the file";
  ExpectRefused("--from hf --to nxd --tp 2 --seq 8192", model_, workshop_ / "no", 2,
                "--seq of an NxD set is that of training for --instance");
}

TEST_F(LayoutFrom, IsRefusedWhereItMeansNothing) {
  ExpectRefused("--from hf --to hf --layout-from " + Yaml(), model_, set_, 2,
                "--layout-from does not apply to a conversion from hf to hf");
  ExpectRefused("--from hf --to nxd --layout-from " + Yaml("${multiply:2,4}"), model_, set_, 2,
                "name a copy of the file with its value");
  ExpectRefused("--from hf --to nxd --tp 2 --nodes 2", model_, set_, 2,
                "--nodes says how many there are of --instance");
}

// Public examples of NxD Training, and models with only one way to store q, k and v.
TEST_F(LayoutFrom, NobodyIsToldOfAnOptionThatNobodyGave) {
  const std::string megatron =
      workshop_.Write("conf/megatron.yaml",
                      "model_source: megatron\n"
                      "distributed_strategy:\n  tensor_model_parallel_size: 2\n"
                      "data:\n  seq_length: ${model.encoder_seq_length}\n"
                      "model:\n  encoder_seq_length: 64\n");
  ExpectConverts("--from hf --to nxd --layout-from " + megatron, model_, set_);
  EXPECT_EQ(MainFiles(set_), 2u);
  EXPECT_THAT(RunProcess({Workshop::Tool("ckpt-inspect"), "--json", set_}).out,
              HasSubstr("\"style\":\"megatron\""));
  ExpectRefused("--from hf --to nxd --qkv linear --layout-from " + megatron, model_,
                workshop_ / "no", 2, "there is one way to store q, k and v: --qkv does not apply");
  const std::string neox = workshop_.MakeModel("neox", testing_util::TinyGptNeox());
  ExpectConverts("--from hf --to nxd --layout-from " + Yaml("2"), neox, workshop_ / "neox_set");
}

TEST_F(LayoutFrom, FuseQkvIsOnUnlessItIsSwitchedOff) {
  ExpectConverts("--from hf --to nxd --layout-from " + Yaml(), model_, set_);
  EXPECT_THAT(RunProcess({Workshop::Tool("ckpt-inspect"), "--json", set_}).out,
              HasSubstr("\"qkv\":\"coalesced\""))
      << "a key head for each query head";
  const std::string grouped = workshop_.MakeModel("grouped", testing_util::TinyLlama());
  ExpectConverts("--from hf --to nxd --layout-from " + Yaml("2"), grouped, workshop_ / "g");
  EXPECT_THAT(RunProcess({Workshop::Tool("ckpt-inspect"), "--json", workshop_ / "g"}).out,
              HasSubstr("\"qkv\":\"separate\""));
}

TEST_F(LayoutFrom, TheVendorsOptionsAreAnsweredWithOurs) {
  ExpectRefused("--from hf --to nxd --tp_size 2", model_, set_, 2, "--tp");
  ExpectRefused("--from hf --to nxd --kv_size_multiplier 2", model_, set_, 2, "--kv-multiplier");
  ExpectRefused("--from hf --to nxd --convert_from_full_state", model_, set_, 2, "--from hf");
  ExpectRefused("--from hf --to nxd --load_xser True", model_, set_, 2,
                "unknown option --load-xser; leave it out: xser is recognised");
  ExpectRefused("--tp_size 2 --pp_size=2 --tp 2 --fuse_qkv True", model_, set_, 2,
                "--pp_size: here it is --pp; --fuse_qkv: here it is --qkv fused");
}

}  // namespace
}  // namespace nxdkit::test
