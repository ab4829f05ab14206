// optimum-neuron's training checkpoints with the commands: made, inspected, verified, digested,
// resharded, read back.
#include <fstream>

#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;

ProcessResult RunWords(const char* tool, const std::string& options) {
  Words words = {Workshop::Tool(tool)};
  for (const std::string& word : Split(options)) words.push_back(word);
  return RunProcess(words);
}

class Optimum : public ::testing::Test {
 protected:
  std::string Digest(const std::string& path) const {
    return JsonOf(RunWords("ckpt-digest", "--json " + path))["digest"].get<std::string>();
  }
  const Workshop shop_;
  const std::string model_ = shop_.MakeModel("model", testing_util::TinyLlama());
  const std::string made_ = shop_ / "run/checkpoint-10";
};

TEST_F(Optimum, CheckpointsAreMadeReshardedAndReadBack) {
  ExpectConverts("--from hf --to nxd --tp 4 --style optimum --verify", model_, made_);
  const std::string digest = Digest(model_);
  EXPECT_EQ(Digest(made_), digest);
  EXPECT_EQ(Workshop::Verify(made_, "--against " + model_).exit_code, 0);

  const std::string smaller = shop_ / "checkpoint-10";
  const ProcessResult reshard =
      RunWords("nxd-reshard", "--no-sync --tp 2 --pp 2 " + made_ + " " + smaller);
  ASSERT_EQ(reshard.exit_code, 0) << reshard.err;
  EXPECT_TRUE(std::filesystem::exists(smaller + "/shards/mp_metadata_pp_rank_1.json"));
  EXPECT_EQ(Digest(smaller), digest);

  ExpectConverts("--from nxd --to hf --verify", smaller, shop_ / "back");
  EXPECT_EQ(Digest(shop_ / "back"), digest);
}

// The trainer's folder is recognised as such.
TEST_F(Optimum, CheckpointsAreInspected) {
  ExpectConverts("--from hf --to nxd --tp 4 --style optimum", model_, made_);
  const ProcessResult shown = RunWords("ckpt-inspect", made_);
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("tensor_parallel_size 4"));
  const Json json = JsonOf(RunWords("ckpt-inspect", "--json " + made_));
  EXPECT_EQ(json["trainer"]["metadata"], Json::array({"mp_metadata_pp_rank_0.json"}));
}

// Any change of the record is found.
TEST_F(Optimum, ARecordThatSaysOtherwiseIsFound) {
  ExpectConverts("--from hf --to nxd --tp 4 --style optimum", model_, made_);
  const std::string path = made_ + "/shards/mp_metadata_pp_rank_0.json";
  std::string text = ReadFile(path);
  const std::string before = "\"partition_dim\": 1";
  text.replace(text.find(before), before.size(), "\"partition_dim\": 0");
  std::ofstream(path) << text;
  const ProcessResult found = Workshop::Verify(made_);
  EXPECT_EQ(found.exit_code, 1) << found.out << found.err;
  EXPECT_THAT(found.out, HasSubstr("recorded as cut along dimension 0, but it is cut along 1"));
}

TEST_F(Optimum, WhatItsTrainerHasNoModuleForIsRefused) {
  ExpectRefused("--from hf --to nxd --tp 4 --style optimum --hw trn2", model_, made_, 2,
                "optimum-neuron stores repeated key heads as for trn1");
  const std::string qwen2 = shop_.MakeModel("qwen2", testing_util::TinyQwen2());
  ExpectRefused("--from hf --to nxd --tp 2 --style optimum", qwen2, made_, 4,
                "optimum-neuron's trainer has no module for qwen2 models");
}

}  // namespace
}  // namespace nxdkit::test
