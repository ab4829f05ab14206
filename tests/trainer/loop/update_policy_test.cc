// The metrics reported by the updates of a step.
#include "trainer/loop/update_policy.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/trainer/model/model_lab.h"

namespace nxdkit::trainer {
namespace {

// Responses of 1, 7, 2 and 6 tokens; their divergence from the reference grows with their length.
std::vector<Sample> SampleRows() {
  std::vector<Sample> samples;
  for (const size_t tokens : {1u, 7u, 2u, 6u}) {
    Sample& sample = samples.emplace_back();
    sample.row.prompt = {3, static_cast<int32_t>(tokens)};
    for (size_t i = 0; i < tokens; ++i)
      sample.row.response.push_back(static_cast<int32_t>(5 * i + tokens));
    sample.old_log_probs.assign(tokens, -3);
    sample.ref_log_probs.assign(tokens, -3 - static_cast<float>(tokens));
    sample.advantages.assign(tokens, tokens % 2 == 0 ? 1.0f : -1.0f);
  }
  return samples;
}

class UpdatePolicyTest : public ::testing::Test {
 protected:
  std::map<std::string, double> Update(int64_t rows_per_pass, int dp) const {
    MeshOptions mesh;
    mesh.dp = dp;
    mesh.update = {1000, rows_per_pass};
    auto actor = MeshModel::Make(lab_.config(), mesh, lab_.source());
    EXPECT_TRUE(actor.ok());
    PolicyLossOptions loss;
    loss.kl = KlEstimator::kKl;
    loss.kl_coef = 0.5;
    MiniBatchOptions options;
    options.rows_per_update = 4 / dp;
    Metrics metrics;
    const auto result = UpdatePolicy(**actor, SampleRows(), loss, options, metrics);
    EXPECT_TRUE(result.ok()) << result.error().ToString();
    const MetricRecord record = metrics.Means();
    return {record.begin(), record.end()};
  }
  const ModelLab lab_{testing_util::TinyQwen3()};
};

TEST_F(UpdatePolicyTest, KlLossIsThatOfTheUpdateWhateverTheMicroBatches) {
  const auto together = Update(4, 1);
  const auto apart = Update(1, 1);
  const auto ranks = Update(1, 2);
  // The tokens of a row of n tokens are about n - 1.16 apart: (1 + 49 + 4 + 36) / 16 - 1.16. The
  // plain mean over the rows would be 2.84, the last row alone 4.84.
  EXPECT_NEAR(together.at("actor/kl_loss"), 4.46, 0.1);
  EXPECT_NEAR(apart.at("actor/kl_loss"), together.at("actor/kl_loss"), 1e-5);
  EXPECT_NEAR(ranks.at("actor/kl_loss"), together.at("actor/kl_loss"), 1e-5);
  EXPECT_EQ(apart.at("actor/kl_coef"), 0.5);
}

}  // namespace
}  // namespace nxdkit::trainer
