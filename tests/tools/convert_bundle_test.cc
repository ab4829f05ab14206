// --bundle: new weights for a blob that was compiled before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/formats/compiled_blob.h"
#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A bundle as a compiler leaves it: with a blob, a neuron_config.json of its own spelling, and the
// weights of another model of the same shapes.
class ConvertBundle : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ExpectConverts("--from hf --to rollout --tp 4 --bs 8 --seq 512 --flavor " + flavor(), base_,
                   compiled_);
    workshop_.Write("compiled/model.pt", testing_util::CompiledBlob());
    // Spelled like no writer of ours, with a key that we do not know.
    config_ = ReadFile(compiled_ + "/neuron_config.json");
    config_.insert(config_.rfind('}'), ",  \"max_logits\" : -Infinity ");
    workshop_.Write("compiled/neuron_config.json", config_);
  }
  std::string flavor() const { return GetParam(); }
  std::string Bundle() const { return " --bundle " + compiled_; }

  const Workshop workshop_;
  const std::string base_ = workshop_.MakeModel("base", testing_util::TinyLlama(), "--seed 1");
  const std::string tuned_ = workshop_.MakeModel("tuned", testing_util::TinyLlama(), "--seed 2");
  const std::string compiled_ = workshop_ / "compiled";
  const std::string out_ = workshop_ / "out";
  std::string config_;
};

TEST_P(ConvertBundle, CarriesBlobAndConfigByteForByte) {
  ExpectConverts("--from hf --to rollout" + Bundle(), tuned_, out_);
  EXPECT_TRUE(ReadFile(out_ + "/model.pt") == ReadFile(compiled_ + "/model.pt"));
  EXPECT_EQ(ReadFile(out_ + "/neuron_config.json"), config_);
  EXPECT_EQ(Workshop::Verify(out_, "--against " + tuned_).exit_code, 0);
  EXPECT_EQ(Workshop::Verify(out_, "--against " + base_).exit_code, 1);
  const Json json = JsonOf(Workshop::Convert("--from hf --to rollout --json -n" + Bundle(), tuned_,
                                             workshop_ / "never"));
  EXPECT_EQ(json["blob_missing"], false);
}

TEST_P(ConvertBundle, AcceptsOptionsThatSayTheSame) {
  ExpectConverts(
      "--from hf --to rollout --tp 4 --bs 8 --seq 512 --dtype bf16 --flavor " + flavor() + Bundle(),
      tuned_, out_);
}

TEST_P(ConvertBundle, RefusesEachContradictionWithBothValues) {
  const bool fused = config_.find("\"fused_qkv\": true") != std::string::npos;
  struct Row {
    std::string option, asked, bundle;
  };
  for (const Row& row :
       std::vector<Row>{{"--tp 2", "--tp 2 was asked for", "is made for 4"},
                        {"--bs 9", "--bs 9 was asked for", "is made for 8"},
                        {"--seq 1024", "--seq 1024 was asked for", "is made for 512"},
                        {"--dtype f32", "--dtype float32 was asked for", "is made for bfloat16"},
                        {fused ? "--no-fused-qkv" : "--fused-qkv",
                         fused ? "--no-fused-qkv" : "--fused-qkv", fused ? "fused" : "apart"},
                        {flavor() == "nxdi" ? "--flavor optimum" : "--flavor nxdi", "was asked for",
                         "of flavor " + flavor()}}) {
    ExpectRefused("--from hf --to rollout " + row.option + Bundle(), tuned_, out_, 2, row.asked);
    ExpectRefused("--from hf --to rollout " + row.option + Bundle(), tuned_, out_, 2, row.bundle);
  }
}

TEST_P(ConvertBundle, RefusesAModelOfOtherShapes) {
  TinyModel wider = testing_util::TinyLlama();
  wider.intermediate = 96;
  ExpectRefused("--from hf --to rollout" + Bundle(), workshop_.MakeModel("wider", wider), out_, 4,
                "the bundle was compiled for BF16 [12, 32], the model gives BF16 [24, 32]");
  TinyModel deeper = testing_util::TinyLlama();
  deeper.layers = 5;
  ExpectRefused("--from hf --to rollout" + Bundle(), workshop_.MakeModel("deeper", deeper), out_, 4,
                "the bundle was compiled without this tensor");
  TinyModel flatter = testing_util::TinyLlama();
  flatter.layers = 3;
  ExpectRefused("--from hf --to rollout" + Bundle(), workshop_.MakeModel("flatter", flatter), out_,
                4, "tensors per rank, the model gives");
}

// The bundle's dtype was not requested, so the loss of values is reported.
TEST_P(ConvertBundle, SaysThatWiderWeightsAreRounded) {
  const std::string wide =
      workshop_.MakeModel("wide", testing_util::TinyLlama(), "--seed 2 --dtype f32");
  const std::string note = "weights are F32 and the bundle's dtype is BF16: 39 tensors are rounded";
  const auto notes = [&](const ProcessResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out.find(note) != std::string::npos;
  };
  const std::string options = "--from hf --to rollout";
  EXPECT_TRUE(notes(Workshop::Convert(options + Bundle(), wide, out_)));
  EXPECT_TRUE(notes(Workshop::Convert(options + " --into", wide, out_)));
  EXPECT_TRUE(notes(RunProcess({Workshop::Tool("neuron-export"), "--no-sync", "--bundle", compiled_,
                                wide, workshop_ / "exported"})));
  EXPECT_FALSE(notes(Workshop::Convert(options + " --force --dtype bf16" + Bundle(), wide, out_)))
      << "as was asked for";
  EXPECT_FALSE(notes(Workshop::Convert(options + " --force" + Bundle(), tuned_, out_)));
}

TEST_P(ConvertBundle, TakesABundleWithoutWeights) {
  fs::remove_all(compiled_ + (flavor() == "nxdi" ? "/weights" : "/checkpoint"));
  if (flavor() == "nxdi") {
    Json config = *ParseJson(ReadFile(base_ + "/config.json"));
    std::string text = config_;
    const std::string yes = "\"save_sharded_checkpoint\": true";
    const size_t at = text.find(yes);
    ASSERT_NE(at, std::string::npos);
    workshop_.Write("compiled/neuron_config.json",
                    text.replace(at, yes.size(), "\"save_sharded_checkpoint\": false"));
  }
  ExpectConverts("--from hf --to rollout" + Bundle(), tuned_, out_);
  EXPECT_TRUE(fs::exists(out_ + "/model.pt"));
}

TEST_P(ConvertBundle, RefusesAFolderWithoutBlobOrConfig) {
  fs::remove(compiled_ + "/model.pt");
  ExpectRefused("--from hf --to rollout" + Bundle(), tuned_, out_, 3,
                "no compiled blob (model.pt)");
  fs::remove(compiled_ + "/neuron_config.json");
  ExpectRefused("--from hf --to rollout" + Bundle(), tuned_, out_, 3, "no neuron_config.json");
}

// New weights into the bundle itself: its blob is copied to the new one before the old one is
// removed.
TEST_P(ConvertBundle, RefreshesABundleInPlace) {
  const std::string options = "--from hf --to rollout" + Bundle();
  EXPECT_EQ(Workshop::Convert(options, tuned_, compiled_).exit_code, 2) << "--force is needed";
  ExpectConverts(options, tuned_, out_);
  ExpectConverts(options + " --force", tuned_, compiled_);
  ExpectSameTree(out_, compiled_);
}

TEST_P(ConvertBundle, RefusesAnOutputAroundTheBundle) {
  fs::create_directories(workshop_ / "around");
  fs::rename(compiled_, workshop_ / "around/compiled");
  ExpectRefused("--from hf --to rollout --force --bundle " + (workshop_ / "around/compiled"),
                tuned_, workshop_ / "around", 2, "would replace the folder");
  EXPECT_TRUE(fs::exists(workshop_ / "around/compiled/model.pt"));
}

INSTANTIATE_TEST_SUITE_P(All, ConvertBundle, ::testing::Values("optimum", "nxdi"),
                         [](const auto& row) { return std::string(row.param); });

TEST(ConvertWithoutBundle, SaysThatTheBlobIsMissing) {
  const Workshop workshop;
  const std::string model = workshop.MakeModel("model", testing_util::TinyLlama());
  const ProcessResult result = Workshop::Convert("--from hf --to rollout --tp 2 --bs 64 --seq 4096",
                                                 model, workshop / "out");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("the compiled blob (model.pt) is missing"));
  const Json config = *ParseJson(ReadFile(workshop / "out/neuron_config.json"));
  EXPECT_EQ(config["batch_size"], 64);
  EXPECT_EQ(config["sequence_length"], 4096);
  EXPECT_EQ(config["tp_degree"], 2);
}

}  // namespace
}  // namespace nxdkit::test
