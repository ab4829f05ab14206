// The set that the reference converter writes for trn2 with a kv multiplier above 1: query heads in
// natural order, as for trn2, but key heads tiled, as for trn1. Every byte of it is a byte of the
// model, and yet it is wrong: most query heads are paired with another group's key head.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "formats/models/sample_model.h"
#include "formats/nxd/nxd_layout.h"
#include "formats/torch/encoder.h"
#include "lib/plan/executor.h"
#include "lib/sinks/write_sink.h"
#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using models::Hardware;
using nxd::QkvStyle;
using ::testing::HasSubstr;

constexpr uint64_t kSeed = 11;

bool IsKeyOrValue(const std::string& name) {
  return name.ends_with("weight_k") || name.ends_with("weight_v");
}

// The set of a rank: queries and o_proj as for `query`, keys and values as for `kv`.
std::vector<TensorLayout> MixedRank(const models::Model& model, nxd::Geometry geometry, int rank,
                                    Hardware query, Hardware kv) {
  geometry.hardware = query;
  const auto queries = nxd::RankTensors(model, geometry, rank, false);
  geometry.hardware = kv;
  const auto keys = nxd::RankTensors(model, geometry, rank, false);
  EXPECT_TRUE(queries.ok() && keys.ok());
  std::vector<TensorLayout> mixed;
  for (size_t i = 0; i < queries->size(); ++i)
    mixed.push_back(IsKeyOrValue((*queries)[i].layout.name) ? (*keys)[i].layout
                                                            : (*queries)[i].layout);
  return mixed;
}

// Writes it like the reference: torch archives, markers, no record of the layout.
void WriteSet(const std::string& folder, const models::Model& model, const nxd::Geometry& geometry,
              Hardware query, Hardware kv) {
  Layout layout;
  std::vector<OutputTensor> outputs;
  std::vector<OutputFile> files;
  for (int rank = 0; rank < geometry.tp; ++rank) {
    const std::string path = "model/" + nxd::ShardFileName(rank, 0);
    layout.files.push_back({path, rank, 0});
    std::vector<OutputTensor> tensors;
    for (TensorLayout& tensor : MixedRank(model, geometry, rank, query, kv)) {
      tensor.file = static_cast<uint32_t>(rank);
      tensors.push_back({tensor.name, Dtype::kBF16, tensor.shape});
      layout.tensors.push_back(std::move(tensor));
    }
    outputs.insert(outputs.end(), tensors.begin(), tensors.end());
    auto encoder = torch::EncodeStateDict(std::move(tensors), fs::path(path).stem().string());
    ASSERT_TRUE(encoder.ok()) << encoder.error().ToString();
    files.push_back({path, *std::move(encoder)});
  }
  const BoundLayout source = models::SampleCheckpoint(model, kSeed, Dtype::kBF16);
  const auto plan = BuildPlan(model.Logical(), source, layout);
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  const auto executor = Executor::Make(*plan, source, layout, outputs, {});
  ASSERT_TRUE(executor.ok()) << executor.error().ToString();
  fs::create_directories(folder);
  auto sink = WriteSink::Begin(folder, layout, std::move(files), {});
  ASSERT_TRUE(sink.ok()) << sink.error().ToString();
  ASSERT_TRUE(executor->Run(**sink).ok());
  ASSERT_TRUE((*sink)->Finish().ok());
}

class VerifyTrn2 : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto config = models::ParseConfig(tiny_.Config(), "config.json");
    ASSERT_TRUE(config.ok()) << config.error().ToString();
    const auto model = models::MakeModel(*config);
    ASSERT_TRUE(model.ok()) << model.error().ToString();
    nxd::Geometry geometry;
    geometry.tp = 8;
    geometry.kv_multiplier = 2;
    geometry.qkv = QkvStyle::kLinear;
    WriteSet(reference_, *model, geometry, Hardware::kTrn2, Hardware::kTrn1);
    WriteSet(trn1_, *model, geometry, Hardware::kTrn1, Hardware::kTrn1);
    WriteSet(trn2_, *model, geometry, Hardware::kTrn2, Hardware::kTrn2);
    workshop_.MakeModel("model", tiny_, "--seed " + std::to_string(kSeed));
  }

  const testing_util::TinyModel tiny_ = {.kv_heads = 4};
  const Workshop workshop_;
  const std::string config_ = workshop_.Write("c/config.json", tiny_.Config());
  const std::string model_ = workshop_ / "model";
  const std::string reference_ = workshop_ / "reference";
  const std::string trn1_ = workshop_ / "trn1";
  const std::string trn2_ = workshop_ / "trn2";
};

TEST_F(VerifyTrn2, IsFoundWrongWhenItSaysTrn2) {
  const ProcessResult result =
      Workshop::Verify(reference_, "--config " + config_ + " --hw trn2 --kv-multiplier 2");
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("tiled over the ranks as on trn1"));
  EXPECT_THAT(result.out, HasSubstr("rank 1: query head 1 belongs to key head 0 but sits with key "
                                    "head 1"));
  EXPECT_THAT(result.out, HasSubstr("checkpoint_converter.py"));
}

TEST_F(VerifyTrn2, IsFoundWrongAgainstTheModel) {
  for (const char* options : {"", " --hw trn1", " --kv-multiplier 2"}) {
    const ProcessResult result = Workshop::Verify(
        reference_, "--config " + config_ + options + " --json --against " + model_);
    EXPECT_EQ(result.exit_code, 1) << result.err;
    const Json findings = JsonOf(result)["findings"];
    ASSERT_FALSE(findings.empty()) << options;
    const Json& first = findings[0];
    EXPECT_EQ(first["check"], "value");
    EXPECT_EQ(first["tensor"], "model.layers.0.self_attn.qkv_proj.weight_q");
    // Rank 0 holds query head 0 in both orders; rank 1 should hold head 2, and holds 1.
    EXPECT_EQ(first["rank"], 1);
    EXPECT_EQ(first["head"], 2);
    EXPECT_EQ(first["index"], Json::array({8, 0}));
    EXPECT_EQ(first["count"], 4 * 32);
    EXPECT_THAT(first["message"], HasSubstr("query head 1 is where head 2 belongs"));
    EXPECT_THAT(first["message"], HasSubstr("checkpoint_converter.py"));
  }
}

// Even if it is claimed to be a trn2 set: then the key heads are the wrong ones.
TEST_F(VerifyTrn2, IsFoundWrongAgainstTheModelWhenItSaysTrn2) {
  const ProcessResult result =
      Workshop::Verify(reference_, "--config " + config_ + " --hw trn2 --against " + model_);
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("rank 1"));
  EXPECT_THAT(result.out, HasSubstr("head 1"));
  EXPECT_THAT(result.out, HasSubstr("checkpoint_converter.py"));
}

TEST_F(VerifyTrn2, IsNotGuessedAbout) {
  const ProcessResult result = Workshop::Verify(reference_, "--config " + config_);
  EXPECT_EQ(result.exit_code, 2) << result.out;
  EXPECT_THAT(result.err, HasSubstr("the set does not say which it is"));
}

TEST_F(VerifyTrn2, IsNotConverted) {
  ExpectRefused("--from nxd --to hf --hw trn2 --config " + config_, reference_, workshop_ / "out",
                3, "tiled over the ranks as on trn1");
}

TEST_F(VerifyTrn2, RightSetsAreGood) {
  for (const auto& [set, hw] : {std::pair{trn1_, "trn1"}, {trn2_, "trn2"}}) {
    const std::string options = "--config " + config_ + " --hw " + hw;
    const ProcessResult alone = Workshop::Verify(set, options);
    EXPECT_EQ(alone.exit_code, 0) << alone.out << alone.err;
    const ProcessResult against = Workshop::Verify(set, options + " --against " + model_);
    EXPECT_EQ(against.exit_code, 0) << against.out << against.err;
    // The contents prove adjacent copies; tiled ones could be the reference's.
    EXPECT_EQ(Workshop::Verify(set, "--config " + config_).exit_code,
              std::string(hw) == "trn2" ? 0 : 2);
  }
  const ProcessResult wrong = Workshop::Verify(trn2_, "--config " + config_ + " --hw trn1");
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out;
  EXPECT_THAT(wrong.out, HasSubstr("adjacent"));
}

}  // namespace
}  // namespace nxdkit::test
