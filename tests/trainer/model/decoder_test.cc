// The decoder compared with itself: ranks, packing, micro-batches, recomputation, and finite
// differences of the whole. With transformers: tests/interop.
#include "trainer/model/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/trainer/model/expect_close.h"
#include "tests/trainer/model/model_lab.h"

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;
using testing_util::TinyModel;

std::vector<TinyModel> Families() {
  return {testing_util::TinyLlama(),   testing_util::TinyQwen2(), testing_util::TinyQwen3(),
          testing_util::TinyMha(),     testing_util::TinyScore(), testing_util::TinyBiased(),
          testing_util::TinyWindowed()};
}

// Two key heads: with 4 and 8 ranks they are shared.
TEST(Decoder, EveryNumberOfRanksGivesTheSameGradients) {
  for (const TinyModel& tiny : Families()) {
    SCOPED_TRACE(tiny.family);
    const ModelLab lab(tiny);
    const std::vector<Batch> batches = {SampleBatch()};
    const std::vector<Floats> gradients = {SampleGradient(batches[0].targets.size())};
    const Outcome one = lab.Run(1, {}, batches, gradients);
    for (const int tp : {2, 4, 8}) {
      SCOPED_TRACE(tp);
      ExpectSameOutcome(lab.Run(tp, {}, batches, gradients), one, 2e-5f);
    }
  }
}

// Differences of the log-probabilities when one weight is moved, in f32: the step is large, and the
// tolerance covers the rounding of the values.
TEST(Decoder, GradientsAreFiniteDifferences) {
  for (const TinyModel& tiny : Families()) {
    SCOPED_TRACE(tiny.family);
    const ModelLab lab(tiny);
    const Batch batch = SampleBatch();
    const Floats weights = SampleGradient(batch.targets.size());
    const Outcome outcome = lab.Run(1, {}, {batch}, {weights});
    const Status status = lab.OnRanks(1, {}, [&](Decoder& decoder, Comm&) -> Status {
      const auto value = [&](double& sum) -> Status {
        Floats log_probs(batch.targets.size());
        decoder.weights().Changed();
        NXDKIT_TRY(lab.Forward(decoder, batch, 0.8f, false, log_probs, nullptr));
        sum = 0;
        for (size_t i = 0; i < log_probs.size(); ++i) sum += double{log_probs[i]} * weights[i];
        return OkStatus();
      };
      for (const Slot& slot : decoder.table().slots) {
        const std::string& name = lab.config().model.params[slot.param].name;
        const Floats& gradient = outcome.gradients.at(name);
        // The element with the largest effect: rounding hides its difference the least.
        const size_t at = static_cast<size_t>(
            std::max_element(gradient.begin(), gradient.end(),
                             [](float a, float b) { return std::abs(a) < std::abs(b); }) -
            gradient.begin());
        float& weight = decoder.weights().f32()[static_cast<size_t>(slot.offset) + at];
        const float was = weight;
        const float step = 1e-2f;
        double above = 0, below = 0;
        weight = was + step;
        const double up = weight;
        NXDKIT_TRY(value(above));
        weight = was - step;
        const double width = up - weight;
        NXDKIT_TRY(value(below));
        weight = was;
        const double expected = (above - below) / width;
        EXPECT_NEAR(gradient[at], expected, 0.01 * std::abs(expected) + 5e-4) << name;
      }
      return OkStatus();
    });
    EXPECT_TRUE(status.ok());
  }
}

Batch Part(const Batch& batch, size_t sequence) {
  Batch part;
  const int32_t first = batch.starts[sequence];
  const int32_t end = batch.starts[sequence + 1];
  part.ids.assign(batch.ids.begin() + first, batch.ids.begin() + end);
  part.positions.assign(batch.positions.begin() + first, batch.positions.begin() + end);
  part.starts = {0, end - first};
  for (const Batch::Target& target : batch.targets)
    if (target.token >= first && target.token < end)
      part.targets.push_back({target.token - first, target.label});
  return part;
}

class EveryHead : public ::testing::TestWithParam<bool> {
 protected:
  const ModelLab lab{GetParam() ? testing_util::TinyScore() : testing_util::TinyQwen3()};
};
INSTANTIATE_TEST_SUITE_P(Decoder, EveryHead, ::testing::Bool());

TEST_P(EveryHead, PackedSequencesDoNotSeeEachOther) {
  const Batch both = SampleBatch();
  const Floats gradient = SampleGradient(both.targets.size());
  const Batch first = Part(both, 0);
  const Batch second = Part(both, 1);
  ASSERT_EQ(first.targets.size() + second.targets.size(), both.targets.size());
  const auto cut = gradient.begin() + static_cast<ptrdiff_t>(first.targets.size());
  const Outcome apart =
      lab.Run(1, {}, {first, second}, {Floats(gradient.begin(), cut), Floats(cut, gradient.end())});
  ExpectSameOutcome(lab.Run(1, {}, {both}, {gradient}), apart, 2e-5f);
}

TEST_P(EveryHead, RecomputationChangesNoBit) {
  const std::vector<Batch> batches = {SampleBatch()};
  const std::vector<Floats> gradients = {SampleGradient(batches[0].targets.size())};
  for (const Dtype compute : {Dtype::kF32, Dtype::kBF16}) {
    const Outcome kept = lab.Run(2, {.compute = compute, .recompute = false}, batches, gradients);
    const Outcome again = lab.Run(2, {.compute = compute}, batches, gradients);
    EXPECT_EQ(kept.log_probs, again.log_probs);
    EXPECT_EQ(kept.gradients, again.gradients);
    EXPECT_EQ(lab.Run(2, {.compute = compute}, batches, gradients).gradients, again.gradients)
        << "another run, other bits";
    const Outcome bare = lab.Run(2, {.compute = compute, .kept_bytes = 0}, batches, gradients);
    EXPECT_EQ(bare.gradients, again.gradients) << "logits made again";
  }
}

TEST_P(EveryHead, Bf16IsCloseToF32) {
  const std::vector<Batch> batches = {SampleBatch()};
  const std::vector<Floats> gradients = {SampleGradient(batches[0].targets.size())};
  const Outcome exact = lab.Run(1, {}, batches, gradients);
  const Outcome narrow = lab.Run(2, {.compute = Dtype::kBF16}, batches, gradients);
  // 8 bits of mantissa through four layers.
  ExpectClose(narrow.log_probs, exact.log_probs, 0.02f, "log_probs");
  for (const auto& [name, gradient] : exact.gradients)
    ExpectClose(narrow.gradients.at(name), gradient, 0.06f, name);
}

TEST(Decoder, RefusesTokensThatItDoesNotHave) {
  const ModelLab lab(testing_util::TinyQwen3());
  const auto refused = [&](const std::function<void(Batch&)>& damage) {
    Batch batch = SampleBatch();
    damage(batch);
    Floats log_probs(batch.targets.size());
    const Status status =
        lab.OnRanks(1, {.max_positions = 20}, [&](Decoder& decoder, Comm&) -> Status {
          return decoder.Forward(batch, 1, false, log_probs, nullptr);
        });
    EXPECT_FALSE(status.ok());
    return status.ok() ? std::string() : status.error().ToString();
  };
  EXPECT_THAT(refused([](Batch& b) { b.ids[3] = 64; }),
              HasSubstr("token id 64 is not below the model's 64"));
  EXPECT_THAT(refused([](Batch& b) { b.ids[3] = -1; }), HasSubstr("token id -1"));
  EXPECT_THAT(refused([](Batch& b) { b.positions[3] = 20; }),
              HasSubstr("position 20 is not below the model's 20"));
  EXPECT_THAT(refused([](Batch& b) { b.targets[0].label = 99; }), HasSubstr("label 99"));
}

TEST(DecoderConfig, RefusesMoreThanOneScore) {
  Json json = Json::parse(testing_util::TinyScore().Config());
  json["id2label"]["1"] = "LABEL_1";
  const auto config = ParseDecoderConfig(json.dump(), "config.json");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().code(), Errc::kUnsupported);
  EXPECT_EQ(config.error().member(), "id2label");
  EXPECT_THAT(config.error().message(), HasSubstr("2 scores per token are not supported"));
}

TEST(ParamTable, RefusesWhatDoesNotDivide) {
  const ModelLab lab(TinyModel{.intermediate = 44, .vocab = 66});
  const auto why = [&](int tp) {
    const auto table = MakeParamTable(lab.config().model, tp, 0);
    EXPECT_FALSE(table.ok());
    return table.ok() ? std::string() : table.error().ToString();
  };
  EXPECT_EQ(why(3), "8 attention heads cannot be divided over 3 tensor parallel ranks");
  EXPECT_EQ(why(8), "44 rows of the MLP cannot be divided over 8 tensor parallel ranks");
  EXPECT_EQ(why(4), "66 rows of the vocabulary cannot be divided over 4 tensor parallel ranks");
}

TEST(MemoryLayout, CoversEveryParameterOnce) {
  for (const TinyModel& tiny : Families())
    for (const int tp : {1, 2, 4, 8}) {
      const ModelLab lab(tiny);
      std::vector<ParamTable> tables;
      for (int rank = 0; rank < tp; ++rank)
        tables.push_back(*MakeParamTable(lab.config().model, tp, rank));
      const Layout layout = MemoryLayout(lab.config().model, tables);
      EXPECT_TRUE(CheckLayout(lab.config().model.Logical(), layout).ok()) << tiny.family << tp;
    }
}

}  // namespace
}  // namespace nxdkit::trainer
