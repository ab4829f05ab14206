// Whether a bundle fits weights, judged from headers and configurations.
#include "formats/ops/verify/fitness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/formats/compiled_blob.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"

namespace nxdkit::ops {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using testing_util::ReadBytes;
using testing_util::TinyLlama;
using testing_util::TinyModel;

class Fitness : public ::testing::TestWithParam<rollout::Flavor> {
 protected:
  std::string MakeBundle(const std::string& name, const std::string& model, int tp = 2,
                         const OutputOptions& more = {}) const {
    OutputOptions options = more;
    options.Set("tp", tp);
    options.Set("flavor", Word(GetParam()));
    const std::string bundle = workshop_.Make(name, model, &ops::kHf, &ops::kRollout, options);
    std::ofstream(bundle + "/model.pt") << testing_util::CompiledBlob();
    return bundle;
  }
  static Result<VerifyReport> Judge(const std::string& bundle, const std::string& weights) {
    FitnessRequest request;
    request.bundle = bundle;
    request.weights = weights;
    return JudgeFitness(request);
  }
  // "check message" of each finding.
  static std::vector<std::string> Found(const std::string& bundle, const std::string& weights) {
    const auto report = Judge(bundle, weights);
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    std::vector<std::string> out;
    if (report.ok())
      for (const Finding& finding : report->findings)
        out.push_back(finding.check + " " + finding.message);
    return out;
  }
  void RemoveShards(const std::string& bundle) const {
    fs::remove_all(bundle + "/" +
                   (GetParam() == rollout::Flavor::kNxdi ? "weights" : "checkpoint"));
    std::string config = ReadBytes(bundle + "/neuron_config.json");
    const std::string yes = "\"save_sharded_checkpoint\": true";
    if (const size_t at = config.find(yes); at != std::string::npos)
      config.replace(at, yes.size(), "\"save_sharded_checkpoint\": false");
    std::ofstream(bundle + "/neuron_config.json") << config;
  }

  const testing_util::OpsWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", TinyLlama());
};

TEST_P(Fitness, OfTheSameModelInEveryForm) {
  const std::string bundle = MakeBundle("bundle", model_);
  OutputOptions nxd;
  nxd.Set("tp", 4);
  nxd.Set("hw", "trn2");
  const std::string set = workshop_.Make("set", model_, &ops::kHf, &ops::kNxd, nxd);
  EXPECT_THAT(Found(bundle, model_), IsEmpty());
  EXPECT_THAT(Found(bundle, set), IsEmpty());
  EXPECT_THAT(Found(bundle, MakeBundle("same", model_)), IsEmpty());
  const auto report = Judge(bundle, model_);
  EXPECT_EQ(report->model_type, "llama");
  EXPECT_EQ(report->ranks, 2u);
  EXPECT_THAT(report->checks, Contains(HasSubstr("element types of all 2 ranks")));
}

TEST_P(Fitness, OfABundleWithoutShards) {
  const std::string bundle = MakeBundle("bundle", model_);
  RemoveShards(bundle);
  EXPECT_THAT(Found(bundle, model_), IsEmpty());
  TinyModel other = TinyLlama();
  other.vocab = 128;
  other.intermediate = 96;
  EXPECT_THAT(Found(bundle, workshop_.MakeModel("other", other)),
              UnorderedElementsAre(
                  "config vocab_size: the bundle was compiled for 64, the model has 128",
                  "config intermediate_size: the bundle was compiled for 48, the model has 96"));
}

TEST_P(Fitness, NamesAnotherGqaStrategy) {
  const std::string bundle = MakeBundle("bundle", model_, 4);
  RemoveShards(bundle);
  TinyModel other = TinyLlama();
  other.kv_heads = 8;
  EXPECT_THAT(Found(bundle, workshop_.MakeModel("other", other)),
              Contains("gqa GQA strategy: the bundle was compiled for 8 query and 2 key heads "
                       "stored as 8 and 4 (replicate-to-tp-degree), the model has 8 query and 8 "
                       "key heads stored as 8 and 8 (convert-to-mha)"));
}

TEST_P(Fitness, ListsEveryShapeThatDiffers) {
  const std::string bundle = MakeBundle("bundle", model_);
  TinyModel other = TinyLlama();
  other.intermediate = 96;
  const auto report = Judge(bundle, workshop_.MakeModel("other", other));
  ASSERT_TRUE(report.ok());
  size_t shards = 0;
  for (const Finding& finding : report->findings) {
    if (finding.check != "shard") continue;
    ++shards;
    EXPECT_TRUE(finding.rank == 0 || finding.rank == 1);
    EXPECT_THAT(finding.tensor, HasSubstr(".mlp."));
    EXPECT_THAT(finding.message, HasSubstr("the bundle was compiled for BF16 ["));
  }
  EXPECT_EQ(shards, 3u * 4 * 2) << "gate, up and down of four layers on two ranks";
}

TEST_P(Fitness, ShardsMustBeCutAlike) {
  const std::string bundle = MakeBundle("bundle", model_);
  EXPECT_THAT(Found(bundle, MakeBundle("tp4", model_, 4)),
              ElementsAre("tp the shards are cut for tp 4, the bundle was compiled for tp 2"));
  OutputOptions apart;
  apart.Set("fused-qkv", GetParam() == rollout::Flavor::kNxdi);
  EXPECT_THAT(Found(bundle, MakeBundle("other_qkv", model_, 2, apart)),
              ElementsAre(HasSubstr("layout fused_qkv: ")));
  OutputOptions wide;
  wide.dtype = Dtype::kF32;
  EXPECT_THAT(Found(bundle, MakeBundle("f32", model_, 2, wide)),
              ElementsAre(HasSubstr("is F32, the bundle was compiled for BF16")));
}

TEST_P(Fitness, OtherWeightsAreRounded) {
  const std::string bundle = MakeBundle("bundle", model_);
  const auto report = Judge(bundle, workshop_.MakeModel("f32", TinyLlama(), Dtype::kF32));
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->findings, IsEmpty());
  EXPECT_THAT(report->warnings, Contains(HasSubstr("is F32, the bundle was compiled for BF16")));
}

TEST_P(Fitness, ThereMustBeSomethingToRun) {
  const std::string bundle = MakeBundle("bundle", model_);
  fs::remove(bundle + "/model.pt");
  EXPECT_THAT(Found(bundle, model_), ElementsAre(HasSubstr("blob there is nothing to run")));
}

TEST_P(Fitness, ABlobThatIsNoneNeitherFitsNorIsGood) {
  const std::string bundle = MakeBundle("bundle", model_);
  EXPECT_THAT(testing_util::FindingsOf(bundle), IsEmpty());
  EXPECT_THAT(Judge(bundle, model_)->checks,
              Contains("model.pt: a whole TorchScript archive, 1 NEFF in it, checksums and hashes "
                       "hold"));
  const std::string good = testing_util::CompiledBlob();
  for (const std::string& bytes : {std::string(), good.substr(0, 900), std::string("compiled")}) {
    std::ofstream(bundle + "/model.pt") << bytes;
    EXPECT_THAT(Found(bundle, model_), ElementsAre(HasSubstr("blob it is "))) << bytes.size();
    ASSERT_EQ(testing_util::FindingsOf(bundle).size(), 1u) << bytes.size();
    EXPECT_EQ(testing_util::FindingsOf(bundle)[0].file, bundle + "/model.pt");
  }
}

// The plan of our own engine is a file of its own; under the blob's name it is not a plan.
TEST_P(Fitness, APlanForTheCpuIsNoBlob) {
  OutputOptions options;
  options.Set("cpu-plan", true);
  const std::string bundle = MakeBundle("bundle", model_, 2, options);
  const std::string plan = ReadBytes(bundle + "/nxdkit-cpu-plan.json");
  std::ofstream(bundle + "/model.pt") << plan;
  EXPECT_THAT(Found(bundle, model_), ElementsAre(HasSubstr("blob it is not a whole TorchScript")));
}

TEST_P(Fitness, APlanForTheCpuFollowsFromTheConfigurations) {
  OutputOptions options;
  options.Set("cpu-plan", true);
  const std::string bundle = MakeBundle("bundle", model_, 2, options);
  EXPECT_THAT(Found(bundle, model_), IsEmpty());
  EXPECT_THAT(testing_util::FindingsOf(bundle), IsEmpty());
  const std::string path = bundle + "/nxdkit-cpu-plan.json";
  const std::string plan = ReadBytes(path);
  std::string other = plan;
  const std::string digest = "\"config_digest\": \"sha256:";
  other[other.find(digest) + digest.size()] ^= 1;
  std::ofstream(path) << other;
  EXPECT_THAT(Found(bundle, model_), ElementsAre(HasSubstr("cpu plan config_digest: sha256:")));
  ASSERT_EQ(testing_util::FindingsOf(bundle).size(), 1u);
  EXPECT_EQ(testing_util::FindingsOf(bundle)[0].file, path);
  std::ofstream(path) << plan.substr(0, plan.size() / 2);
  EXPECT_THAT(Found(bundle, model_), ElementsAre(HasSubstr("cpu plan JSON line ")));
}

TEST_P(Fitness, ADamagedConfigIsAnError) {
  const std::string bundle = MakeBundle("bundle", model_);
  std::ofstream(bundle + "/config.json") << "[1]";
  const auto report = Judge(bundle, model_);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::kCorrupt);
  EXPECT_EQ(report.error().file(), bundle + "/config.json");
}

TEST_P(Fitness, WithoutItsConfigurationABundleIsNotJudged) {
  const std::string bundle = MakeBundle("bundle", model_);
  fs::remove(bundle + "/neuron_config.json");
  const auto report = Judge(bundle, model_);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::kNotFound);
  EXPECT_THAT(report.error().message(), HasSubstr("no neuron_config.json"));
}

INSTANTIATE_TEST_SUITE_P(Flavors, Fitness,
                         ::testing::Values(rollout::Flavor::kOptimum, rollout::Flavor::kNxdi));

}  // namespace
}  // namespace nxdkit::ops
