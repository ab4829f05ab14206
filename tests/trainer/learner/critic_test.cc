// The critic: its initial weights, that its values are read where tokens are predicted, and that it
// learns the returns on every mesh.
#include "formats/kinds/open.h"
#include "trainer/learner/critic_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>

#include "formats/ops/convert/convert.h"
#include "formats/ops/sample/make_model.h"
#include "lib/json/json.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"
#include "tests/trainer/learner/some_rows.h"
#include "tests/trainer/model/model_lab.h"
#include "trainer/algo/value_loss.h"
#include "trainer/learner/mesh_model.h"

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::TinyModel;

// The target that the critic has to learn.
std::vector<float> ReturnsOf(size_t row, size_t tokens) {
  return std::vector<float>(tokens, row % 2 == 0 ? 1.0f : -0.5f);
}

class CriticTest : public ::testing::Test {
 protected:
  CriticModel Model(const TinyModel& tiny, uint64_t seed = 7) {
    labs_.push_back(std::make_unique<ModelLab>(tiny));
    auto opened = ops::OpenAndBind(labs_.back()->path(), &ops::kHf, {});
    EXPECT_TRUE(opened.ok());
    auto critic = MakeCriticModel(*std::move(opened), seed);
    EXPECT_TRUE(critic.ok()) << critic.error().ToString();
    return *std::move(critic);
  }
  static MeshOptions Options(int tp, int dp) {
    MeshOptions options;
    options.tp = tp;
    options.dp = dp;
    options.update.max_tokens = options.experience.max_tokens = 40;
    return options;
  }
  std::unique_ptr<MeshModel> Make(const MeshOptions& options) const {
    auto critic = MeshModel::Make(model_.config, options, model_.source);
    EXPECT_TRUE(critic.ok()) << critic.error().ToString();
    return *std::move(critic);
  }
  static RowValues Values(MeshModel& critic) {
    auto values = critic.Evaluate(SomeRows());
    EXPECT_TRUE(values.ok()) << values.error().ToString();
    return std::move(values->outputs);
  }
  // Takes one step of the value loss; returns the loss before it.
  static double Update(MeshModel& critic, double lr = 1e-2) {
    const std::vector<Row> rows = SomeRows();
    const RowValues old = Values(critic);
    const size_t dp = static_cast<size_t>(critic.options().dp);
    std::vector<std::vector<size_t>> shares(dp);
    MiniBatch mini_batch;
    for (size_t r = 0; r < rows.size(); ++r) {
      shares[r * dp / rows.size()].push_back(r);
      mini_batch.rows += 1;
      mini_batch.tokens += static_cast<int64_t>(rows[r].response.size());
    }
    std::vector<double> losses(dp);
    const auto result = critic.Update(
        rows, shares,
        [&](int dp_rank, bool record, std::span<const size_t> chosen, std::span<const float> values,
            std::span<float> gradient) -> Status {
          std::vector<std::vector<float>> returns;
          for (const size_t r : chosen) returns.push_back(ReturnsOf(r, rows[r].response.size()));
          std::vector<ValueRow> value_rows;
          size_t at = 0;
          for (size_t i = 0; i < chosen.size(); ++i) {
            const size_t tokens = returns[i].size();
            value_rows.push_back({values.subspan(at, tokens), old[chosen[i]], returns[i],
                                  gradient.subspan(at, tokens)});
            at += tokens;
          }
          NXDKIT_ASSIGN(const ValueMetrics found, ComputeValueLoss({}, mini_batch, value_rows));
          if (record) losses[static_cast<size_t>(dp_rank)] += found.loss;
          return OkStatus();
        },
        lr);
    EXPECT_TRUE(result.ok()) << result.error().ToString();
    double loss = 0;
    for (const double of_rank : losses) loss += of_rank;
    return loss;
  }
  std::string Save(MeshModel& critic, const std::string& name) const {
    const OptimizerMemory optimizer = critic.optimizer();
    ops::ConvertRequest request;
    request.source = [&]() -> Result<ops::BoundArtifact> {
      return BindTraining(model_.source.artifact, model_.config.model, critic.weights(),
                          &optimizer);
    };
    request.to = &ops::kNxd;
    request.output = folder_.Path(name);
    request.options.Set("tp", critic.options().tp);
    request.options.Set("dp", critic.options().dp);
    request.options.Set("hw", Word(models::Hardware::kTrn1));
    request.sync = false;
    const auto report = ops::Convert(request);
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    return request.output;
  }
  const testing_util::Scratch folder_;
  std::vector<std::unique_ptr<ModelLab>> labs_;
  const CriticModel model_ = Model(testing_util::TinyQwen3());
};

TEST_F(CriticTest, BeginsWithALanguageModelAndASeededScore) {
  EXPECT_EQ(model_.config.model.params.back().name, "score.bias");
  EXPECT_THAT(model_.notes, ElementsAre(HasSubstr("has no score.weight: drawn with seed 7 and "
                                                  "deviation 0.02"),
                                        HasSubstr("has no score.bias: it is 0")));
  const auto score = [](const CriticModel& model) {
    std::vector<float> values(32);
    const StoredTensor& stored = model.source.bound.stored[model.source.bound.stored.size() - 2];
    EXPECT_EQ(stored.name, "score.weight");
    EXPECT_TRUE(stored.storage->ReadAt(0, std::as_writable_bytes(std::span(values))).ok());
    return values;
  };
  const std::vector<float> values = score(model_);
  EXPECT_EQ(score(Model(testing_util::TinyQwen3())), values);
  EXPECT_NE(score(Model(testing_util::TinyQwen3(), 8)), values);
  double squares = 0;
  for (const float value : values) squares += double{value} * value / 32;
  EXPECT_NEAR(std::sqrt(squares), 0.02, 0.01);
  const CriticModel untied = Model(testing_util::TinyLlama());
  EXPECT_THAT(untied.notes[0], HasSubstr("lm_head.weight of "));
  EXPECT_THAT(untied.notes[0], HasSubstr("is left out: a critic has none"));
}

// transformers reads it back as ...ForTokenClassification.
TEST_F(CriticTest, WritesTheConfigurationOfWhatItIs) {
  const auto critic = Make(Options(2, 1));
  const std::string tag = Save(*critic, "tag");
  std::ifstream in(tag + "/config.json");
  const Json json = Json::parse(in);
  EXPECT_EQ(json["architectures"], Json({"Qwen3ForTokenClassification"}));
  EXPECT_EQ(json["id2label"], Json({{"0", "LABEL_0"}}));
  EXPECT_EQ(json["label2id"], Json({{"LABEL_0", 0}}));
  EXPECT_EQ(json["classifier_dropout"], 0.0);
  EXPECT_EQ(json["hidden_size"], 32);
  // And a critic begins with it unchanged.
  auto opened = ops::OpenAndBind(tag, &ops::kNxd, {});
  ASSERT_TRUE(opened.ok()) << opened.error().ToString();
  const auto again = MakeCriticModel(*std::move(opened), 1);
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_THAT(again->notes, ::testing::IsEmpty());
  auto reopened = MeshModel::Make(again->config, Options(1, 1), again->source);
  ASSERT_TRUE(reopened.ok());
  const RowValues expected = Values(*Make(Options(1, 1)));
  EXPECT_EQ(Values(**reopened), expected);
}

TEST_F(CriticTest, RefusesTwoScores) {
  Json json = Json::parse(testing_util::TinyScore().Config());
  json["id2label"]["1"] = "LABEL_1";
  ops::MakeModelRequest request;
  request.config = folder_.Write("two.json", json.dump());
  request.output = folder_.Path("two");
  request.dtype = Dtype::kF32;
  ASSERT_TRUE(ops::MakeModel(request).ok());
  auto opened = ops::OpenAndBind(request.output, &ops::kHf, {});
  ASSERT_TRUE(opened.ok());
  const auto error =
      testing_util::ExpectError(MakeCriticModel(*std::move(opened), 1), Errc::kUnsupported,
                                "2 scores per token are not supported by this trainer: 1 is");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), "id2label");
}

TEST_F(CriticTest, RefusesAModelThatNobodyKnows) {
  Json json = Json::parse(testing_util::TinyQwen3().Config());
  json["model_type"] = "other";
  const std::string folder = folder_.Path("other");
  std::filesystem::copy(labs_[0]->path(), folder);
  std::ofstream(folder + "/config.json") << json.dump();
  auto opened = ops::OpenAndBind(folder, &ops::kHf, {});
  ASSERT_TRUE(opened.ok()) << opened.error().ToString();
  testing_util::ExpectError(MakeCriticModel(*std::move(opened), 1), Errc::kUnsupported,
                            "no parameter table for model_type \"other\"");
}

// The last token of a response is only a label: changing it changes no value; the one before does.
TEST_F(CriticTest, ValuesAreReadWhereTheTokenIsPredicted) {
  const auto critic = Make(Options(1, 1));
  std::vector<Row> rows = {{{3, 4}, {5, 6, 7}}};
  const RowValues before = critic->Evaluate(rows)->outputs;
  ASSERT_EQ(before[0].size(), 3u);
  rows[0].response[2] = 9;
  EXPECT_EQ(critic->Evaluate(rows)->outputs, before);
  rows[0].response[1] = 9;
  const RowValues after = critic->Evaluate(rows)->outputs;
  EXPECT_EQ(after[0][0], before[0][0]);
  EXPECT_EQ(after[0][1], before[0][1]);
  EXPECT_NE(after[0][2], before[0][2]);
}

TEST_F(CriticTest, EveryMeshLearnsTheSame) {
  const auto one = Make(Options(1, 1));
  std::vector<double> losses;
  for (int step = 0; step < 30; ++step) losses.push_back(Update(*one));
  EXPECT_LT(losses.back(), losses.front() / 10) << "from " << losses.front();
  for (const auto& [tp, dp] : {std::pair(2, 1), {1, 2}, {2, 2}, {4, 2}}) {
    const auto critic = Make(Options(tp, dp));
    for (int step = 0; step < 3; ++step)
      EXPECT_NEAR(Update(*critic), losses[static_cast<size_t>(step)], 2e-3)
          << tp << "x" << dp << " step " << step;
  }
}

TEST_F(CriticTest, GoesOnBitForBitAfterARestore) {
  for (const OptimizerType type : {OptimizerType::kAdamW, OptimizerType::kAdamWBf16Fixed}) {
    MeshOptions options = Options(2, 2);
    options.optimizer.type = type;
    options.decoder.compute = Dtype::kBF16;
    const auto whole = Make(options);
    for (int step = 0; step < 5; ++step) Update(*whole);
    const auto first = Make(options);
    for (int step = 0; step < 3; ++step) Update(*first);
    const std::string tag = Save(*first, fmt::format("type{}", int(type)));
    const auto second = Make(options);
    const Status restored = second->Restore(tag, {});
    ASSERT_TRUE(restored.ok()) << restored.error().ToString();
    EXPECT_EQ(second->optimizer().step, 3);
    for (int step = 0; step < 2; ++step) Update(*second);
    EXPECT_EQ(Values(*second), Values(*whole)) << int(type);
  }
}

}  // namespace
}  // namespace nxdkit::trainer
