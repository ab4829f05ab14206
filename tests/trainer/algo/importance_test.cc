// Truncated importance weights between engine and trainer. The vectors were worked out by hand from
// the formula of importance.h.
#include "trainer/algo/importance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/lib/expect_error.h"
#include "trainer/algo/policy_loss.h"

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using testing_util::ExpectError;

// Differences ln 2, ln 0.5, ln 4, 0 and, in another response, ln 0.25.
const std::vector<float> kEngine = {-2, -1, -3, -0.5};
const std::vector<float> kTrainer = {-2 + std::log(2.0f), -1 + std::log(0.5f), -3 + std::log(4.0f),
                                     -0.5};
const std::vector<float> kOtherEngine = {-1};
const std::vector<float> kOtherTrainer = {-1 + std::log(0.25f)};

std::vector<ImportanceRow> Rows() { return {{kTrainer, kEngine}, {kOtherTrainer, kOtherEngine}}; }

TEST(Importance, OfTokensIsTheirRatioUpToTheThreshold) {
  ImportanceStats stats;
  const auto weights = ImportanceWeights({ImportanceLevel::kToken, 3}, Rows(), stats);
  ASSERT_TRUE(weights.ok()) << weights.error().ToString();
  EXPECT_THAT((*weights)[0],
              ElementsAre(FloatNear(2, 1e-6f), FloatNear(0.5f, 1e-6f), 3, FloatNear(1, 1e-6f)));
  EXPECT_THAT((*weights)[1], ElementsAre(FloatNear(0.25f, 1e-6f)));
  EXPECT_NEAR(stats.mean, 6.75 / 5, 1e-6);
  EXPECT_NEAR(stats.min, 0.25, 1e-6);
  EXPECT_NEAR(stats.max, 3, 1e-6);
  EXPECT_NEAR(stats.truncated, 0.2, 1e-12);
  // (2 + 0.5 + 3 + 1 + 0.25)^2 / (5 (4 + 0.25 + 9 + 1 + 0.0625))
  EXPECT_NEAR(stats.effective, 45.5625 / (5 * 14.3125), 1e-6);
}

// 2 * 0.5 * 4 * 1 = 4, truncated to 3.
TEST(Importance, OfASequenceIsTheProduct) {
  ImportanceStats stats;
  const auto truncated = ImportanceWeights({ImportanceLevel::kSequence, 3}, Rows(), stats);
  ASSERT_TRUE(truncated.ok());
  EXPECT_THAT((*truncated)[0], ElementsAre(3, 3, 3, 3));
  EXPECT_NEAR(stats.truncated, 0.8, 1e-12);
  const auto whole = ImportanceWeights({ImportanceLevel::kSequence, 100}, Rows(), stats);
  ASSERT_TRUE(whole.ok());
  EXPECT_THAT((*whole)[0][3], FloatNear(4, 1e-5f));
  EXPECT_THAT((*whole)[1], ElementsAre(FloatNear(0.25f, 1e-6f)));
  EXPECT_EQ(stats.truncated, 0);
}

TEST(Importance, EqualPoliciesWeighOne) {
  ImportanceStats stats;
  const std::vector<ImportanceRow> rows = {{kEngine, kEngine}};
  const auto weights = ImportanceWeights({ImportanceLevel::kSequence, 2}, rows, stats);
  ASSERT_TRUE(weights.ok());
  EXPECT_THAT((*weights)[0], ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(stats.effective, 1);
}

// Weighting the advantage equals weighting the loss: every policy loss is linear in an advantage of
// one sign.
TEST(Importance, AWeightedAdvantageIsAWeightedLoss) {
  for (const LossType type : {LossType::kDefault, LossType::kGspo, LossType::kGspoToken,
                              LossType::kCispo, LossType::kSapo})
    for (const double advantage : {-1.5, -0.25, 0.75, 2.0})
      for (const double log_ratio : {-2.0, -0.1, 0.0, 0.3, 1.5})
        for (const double weight : {0.125, 0.7, 2.0}) {
          const PolicyLossOptions options{.type = type};
          const TokenLoss plain = PolicyTokenLoss(options, advantage, -1.25, log_ratio);
          const TokenLoss weighed = PolicyTokenLoss(options, weight * advantage, -1.25, log_ratio);
          EXPECT_NEAR(weighed.loss, weight * plain.loss, 1e-12);
          EXPECT_NEAR(weighed.gradient, weight * plain.gradient, 1e-12);
        }
}

TEST(Importance, RefusesWhatCannotBeCompared) {
  ImportanceStats stats;
  const std::vector<ImportanceRow> lengths = {{kTrainer, kOtherEngine}};
  EXPECT_TRUE(ExpectError(ImportanceWeights({ImportanceLevel::kToken, 2}, lengths, stats),
                          Errc::kUsage, "row 0: 4 log-probabilities of the trainer, 1"));
  const std::vector<float> bad = {-1, -INFINITY, -1, -1};
  const std::vector<ImportanceRow> infinite = {{kTrainer, bad}};
  EXPECT_TRUE(ExpectError(ImportanceWeights({ImportanceLevel::kToken, 2}, infinite, stats),
                          Errc::kUsage, "row 0, token 1"));
  EXPECT_TRUE(ExpectError(ParseImportanceLevel("tokens"), Errc::kUsage, "off, token, sequence"));
}

}  // namespace
}  // namespace nxdkit::trainer
