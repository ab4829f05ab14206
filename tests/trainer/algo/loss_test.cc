// Policy, KL and value losses: worked examples of the reference, and every gradient compared with
// finite differences of the loss itself.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "trainer/algo/kl.h"
#include "trainer/algo/policy_loss.h"
#include "trainer/algo/value_loss.h"

namespace nxdkit::trainer {
namespace {

using Floats = std::vector<float>;

struct TokenCase {
  double advantage, difference;
  double default_loss, default_gradient;
  double cispo_loss, cispo_gradient;
  double sapo_loss, sapo_gradient;
  bool high, low;
};
const TokenCase kTokens[] = {
    {1.5, -2.0, -.203003, -.203003, 3.6, -1.2, -1.778194, -.169331, false, false},
    {1.5, 0.0, -1.5, -1.5, 1.5, -1.5, -3.0, -1.5, false, false},
    {1.5, .2, -1.832104, -1.832104, 1.465683, -1.832104, -3.330754, -1.809834, false, false},
    {1.5, .3, -1.95, 0, 1.365, -1.95, -3.5195, -1.964071, true, false},
    {-1.5, -.3, 1.2, 0, -1.56, 1.2, 2.470752, 1.090904, true, false},
    {-1.5, -.1, 1.357256, 1.357256, -1.492982, 1.357256, 2.714518, 1.353874, false, false},
    {-1.5, 1.0, 4.077423, 4.077423, 0, 1.95, 4.906622, 1.979406, false, false},
    {-1.5, 1.2, 4.5, 0, .39, 1.95, 5.254518, 1.473845, false, true},
};

TEST(PolicyLoss, WorkedExamples) {
  for (const TokenCase& one : kTokens) {
    const auto check = [&](LossType type, double loss, double gradient, bool high, bool low) {
      const double log_prob = -1 + one.difference;
      const TokenLoss token =
          PolicyTokenLoss({.type = type}, one.advantage, log_prob, one.difference);
      const std::string what = testing::PrintToString(one.advantage) + ", " +
                               testing::PrintToString(one.difference) + " type " +
                               std::to_string(static_cast<int>(type));
      EXPECT_NEAR(token.loss, loss, 6e-7) << what;
      EXPECT_NEAR(token.gradient, gradient, 6e-7) << what;
      EXPECT_EQ(token.clipped_high, high) << what;
      EXPECT_EQ(token.clipped_low, low) << what;
    };
    for (const LossType type : {LossType::kDefault, LossType::kGspo, LossType::kGspoToken})
      check(type, one.default_loss, one.default_gradient, one.high, one.low);
    check(LossType::kCispo, one.cispo_loss, one.cispo_gradient, false, false);
    check(LossType::kSapo, one.sapo_loss, one.sapo_gradient, false, false);
  }
}

// Rows of different lengths with log-probabilities near the old ones, some past the clips.
struct LossLab {
  std::vector<Floats> now, old, ref, advantages, gradient;

  explicit LossLab(uint32_t seed, const std::vector<size_t>& lengths = {5, 1, 3}) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    for (const size_t length : lengths) {
      Floats row[4];
      for (size_t t = 0; t < length; ++t) {
        row[0].push_back(-1 - std::abs(normal(random)));
        row[1].push_back(row[0][t] + 0.3f * normal(random));
        row[2].push_back(row[0][t] + 0.5f * normal(random));
        row[3].push_back(normal(random));
      }
      now.push_back(row[0]);
      old.push_back(row[1]);
      ref.push_back(row[2]);
      advantages.push_back(row[3]);
      gradient.emplace_back(length, 99.0f);
    }
  }
  std::vector<PolicyRow> Rows() {
    std::vector<PolicyRow> rows;
    for (size_t i = 0; i < now.size(); ++i)
      rows.push_back({now[i], old[i], ref[i], advantages[i], gradient[i]});
    return rows;
  }
  Result<PolicyMetrics> Run(const PolicyLossOptions& options, const MiniBatch& mini_batch) {
    return ComputePolicyLoss(options, mini_batch, Rows());
  }
};
constexpr MiniBatch kMiniBatch = {.tokens = 20, .rows = 6};

// The loss in f64 as in the reference, with `values` as log-probabilities. For gspo_token and cispo
// the terms without a gradient come from `fixed`.
double PlainLoss(const PolicyLossOptions& options, const LossLab& lab,
                 const std::vector<std::vector<double>>& values,
                 const std::vector<std::vector<double>>& fixed) {
  double tokens = 0;
  for (const auto& row : values) tokens += static_cast<double>(row.size());
  double total = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double length = static_cast<double>(values[i].size());
    double mean = 0, fixed_mean = 0;
    for (size_t t = 0; t < values[i].size(); ++t) {
      mean += (values[i][t] - lab.old[i][t]) / length;
      fixed_mean += (fixed[i][t] - lab.old[i][t]) / length;
    }
    double sum = 0;
    for (size_t t = 0; t < values[i].size(); ++t) {
      const double l = values[i][t];
      const double a = lab.advantages[i][t];
      double ratio = l - lab.old[i][t];
      if (options.type == LossType::kGspo) ratio = mean;
      if (options.type == LossType::kGspoToken) ratio = fixed_mean + l - fixed[i][t];
      if (options.type == LossType::kCispo) ratio = fixed[i][t] - lab.old[i][t];
      const double low = std::log(1 - options.clip_low), high = std::log(1 + options.clip_high);
      const double clipped = std::exp(std::min(std::max(ratio, low), high));
      const double rho = std::exp(ratio);
      double loss = std::max(-a * rho, -a * clipped);
      if (a < 0) loss = std::min(loss, -a * options.clip_dual);
      if (options.type == LossType::kCispo) loss = -a * l * clipped;
      if (options.type == LossType::kSapo) {
        const double tau = a < 0 ? options.tau_negative : options.tau_positive;
        loss = -a * 4 / tau / (1 + std::exp(-tau * (rho - 1)));
      }
      if (options.kl) {
        const double d = lab.ref[i][t] - l;
        double kl = 0;
        switch (*options.kl) {
          case KlEstimator::kKl:
            kl = -d;
            break;
          case KlEstimator::kAbs:
            kl = std::abs(d);
            break;
          case KlEstimator::kMse:
            kl = d * d / 2;
            break;
          case KlEstimator::kLowVariance:
            kl = std::exp(d) - d - 1;
            break;
        }
        loss += options.kl_coef * kl;
      }
      sum += loss;
    }
    const double rows = static_cast<double>(values.size());
    switch (options.average) {
      case LossAverage::kToken:
        total += sum / kMiniBatch.tokens;
        break;
      case LossAverage::kSequence:
        total += sum / length / rows * (tokens / kMiniBatch.tokens);
        break;
      case LossAverage::kSequenceMean:
        total += sum / length / kMiniBatch.rows;
        break;
    }
  }
  return total;
}

void CheckByDifferences(const PolicyLossOptions& options, uint32_t seed) {
  LossLab lab(seed);
  std::vector<std::vector<double>> values;
  for (const Floats& row : lab.now) values.emplace_back(row.begin(), row.end());
  const auto fixed = values;
  const auto metrics = lab.Run(options, kMiniBatch);
  ASSERT_TRUE(metrics.ok()) << metrics.error().ToString();
  EXPECT_NEAR(metrics->loss, PlainLoss(options, lab, values, fixed), 1e-9);
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t t = 0; t < values[i].size(); ++t) {
      constexpr double kStep = 1e-6;
      const double at = values[i][t];
      values[i][t] = at + kStep;
      const double above = PlainLoss(options, lab, values, fixed);
      values[i][t] = at - kStep;
      const double slope = (above - PlainLoss(options, lab, values, fixed)) / (2 * kStep);
      values[i][t] = at;
      EXPECT_NEAR(lab.gradient[i][t], slope, 1e-7)
          << "seed " << seed << " row " << i << " token " << t << " type "
          << static_cast<int>(options.type);
    }
}

TEST(PolicyLoss, GradientsByFiniteDifferences) {
  for (const LossType type : {LossType::kDefault, LossType::kGspo, LossType::kGspoToken,
                              LossType::kCispo, LossType::kSapo})
    for (const LossAverage average :
         {LossAverage::kToken, LossAverage::kSequence, LossAverage::kSequenceMean})
      for (uint32_t seed = 0; seed < 20; ++seed)
        CheckByDifferences({.type = type, .average = average}, seed);
}

TEST(PolicyLoss, KlTermByFiniteDifferences) {
  for (const KlEstimator kl :
       {KlEstimator::kKl, KlEstimator::kAbs, KlEstimator::kMse, KlEstimator::kLowVariance})
    for (uint32_t seed = 0; seed < 10; ++seed)
      CheckByDifferences({.kl = kl, .kl_coef = 0.3}, 100 + seed);
}

TEST(PolicyLoss, TokenModeDoesNotDependOnMicroBatches) {
  LossLab lab(5, {4, 2, 7, 1});
  ASSERT_TRUE(lab.Run({.kl = KlEstimator::kMse, .kl_coef = .1}, {14, 4}).ok());
  const std::vector<Floats> whole = lab.gradient;
  std::vector<PolicyRow> rows = lab.Rows();
  double loss = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto part = ComputePolicyLoss({.kl = KlEstimator::kMse, .kl_coef = .1}, {14, 4},
                                        std::span(rows).subspan(i, 1));
    ASSERT_TRUE(part.ok());
    loss += part->loss;
  }
  EXPECT_EQ(lab.gradient, whole);
  EXPECT_NEAR(loss, lab.Run({.kl = KlEstimator::kMse, .kl_coef = .1}, {14, 4})->loss, 1e-12);
}

TEST(PolicyLoss, SeqWithOneRowPerMicroBatchIsToken) {
  LossLab lab(6, {4});
  ASSERT_TRUE(lab.Run({.average = LossAverage::kToken}, kMiniBatch).ok());
  const std::vector<Floats> token = lab.gradient;
  ASSERT_TRUE(lab.Run({.average = LossAverage::kSequence}, kMiniBatch).ok());
  for (size_t t = 0; t < 4; ++t) EXPECT_FLOAT_EQ(lab.gradient[0][t], token[0][t]);
}

TEST(PolicyLoss, OnPolicyHasNoClipsAndNoKl) {
  LossLab lab(7);
  lab.old = lab.now;
  const auto metrics = lab.Run({}, kMiniBatch);
  ASSERT_TRUE(metrics.ok());
  EXPECT_EQ(metrics->ppo_kl, 0);
  EXPECT_EQ(metrics->clip_fraction_higher, 0);
  EXPECT_EQ(metrics->clip_fraction_lower, 0);
  for (size_t i = 0; i < lab.now.size(); ++i)
    for (size_t t = 0; t < lab.now[i].size(); ++t)
      EXPECT_FLOAT_EQ(lab.gradient[i][t], -lab.advantages[i][t] / kMiniBatch.tokens);
}

TEST(PolicyLoss, Metrics) {
  LossLab lab(8, {2, 1});
  lab.now = {{-1, -2}, {-3}};
  lab.old = {{-1.5f, -2}, {-3}};
  lab.ref = {{-1, -3}, {-3}};
  lab.advantages = {{1, 1}, {-2}};
  const auto metrics = lab.Run({.average = LossAverage::kSequence, .kl = KlEstimator::kKl}, {3, 2});
  ASSERT_TRUE(metrics.ok());
  EXPECT_EQ(metrics->tokens, 3);
  EXPECT_NEAR(metrics->pg_loss, ((-1.3 - 1) / 2 + 2) / 2, 1e-9);
  EXPECT_NEAR(metrics->kl_loss, 0.25, 1e-9);
  EXPECT_NEAR(metrics->entropy_loss, (1.5 + 3) / 2, 1e-9);
  EXPECT_NEAR(metrics->ppo_kl, -0.5 / 3, 1e-9);
  EXPECT_NEAR(metrics->clip_fraction_higher, 1.0 / 3, 1e-9);
  EXPECT_EQ(metrics->clip_fraction_lower, 0);
}

TEST(PolicyLoss, CispoWithoutLowerBoundOfZeroFloorsTheRatioAtOne) {
  const PolicyLossOptions floor = {.type = LossType::kCispo, .clip_low = 0, .clip_high = 4};
  EXPECT_NEAR(PolicyTokenLoss(floor, 1, -1, -3).gradient, -1, 1e-12);
  const PolicyLossOptions open = {.type = LossType::kCispo, .clip_low = 1, .clip_high = 4};
  EXPECT_NEAR(PolicyTokenLoss(open, 1, -1, -3).gradient, -std::exp(-3), 1e-12);
}

TEST(PolicyLoss, RatiosOutOfBoundsHaveNoGradient) {
  for (const LossType type : {LossType::kDefault, LossType::kSapo}) {
    EXPECT_EQ(PolicyTokenLoss({.type = type}, 1, -30, -21).gradient, 0);
    EXPECT_EQ(PolicyTokenLoss({.type = type}, -1, -1, 800).gradient, 0);
    EXPECT_TRUE(std::isfinite(PolicyTokenLoss({.type = type}, -1, -1, 800).loss));
  }
}

TEST(PolicyLoss, NamesTheTokenThatIsNotFinite) {
  LossLab lab(9);
  lab.now[2][1] = std::numeric_limits<float>::quiet_NaN();
  const auto metrics = lab.Run({}, kMiniBatch);
  ASSERT_FALSE(metrics.ok());
  EXPECT_EQ(metrics.error().code(), Errc::kCorrupt);
  EXPECT_EQ(metrics.error().member(), "row 2");
  EXPECT_NE(metrics.error().message().find("token 1 has log-probability nan"), std::string::npos);
  LossLab gone(9);
  gone.now[0][0] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(gone.Run({}, kMiniBatch).error().member(), "row 0");
}

TEST(PolicyLoss, LengthsMustAgree) {
  LossLab lab(10);
  lab.old[1].push_back(0);
  const auto metrics = lab.Run({}, kMiniBatch);
  ASSERT_FALSE(metrics.ok());
  EXPECT_EQ(metrics.error().code(), Errc::kInternal);
  EXPECT_EQ(metrics.error().member(), "row 1");
  LossLab small(10);
  EXPECT_EQ(small.Run({}, {8, 3}).error().message(),
            "a micro-batch of 3 rows and 9 tokens in a mini-batch of 3 rows and 8 tokens");
}

TEST(PolicyLoss, NamesAndRanges) {
  for (const char* name : {"default", "gspo", "gspo_token", "cispo", "sapo"})
    EXPECT_TRUE(ParseLossType(name).ok()) << name;
  EXPECT_EQ(ParseLossType("ppo").error().member(), "worker.actor.loss_type");
  for (const char* name : {"token", "seq", "seq_mean"})
    EXPECT_TRUE(ParseLossAverage(name).ok()) << name;
  EXPECT_EQ(ParseLossAverage("mean").error().code(), Errc::kUsage);
  EXPECT_TRUE(CheckPolicyLossOptions({}).ok());
  const Status wrong = CheckPolicyLossOptions({.clip_low = 1.5});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().member(), "worker.actor.clip_ratio_low");
  EXPECT_EQ(wrong.error().message(), "1.5 is out of range: expected a finite number, from 0 to 1");
  EXPECT_EQ(CheckPolicyLossOptions({.clip_dual = 1}).error().member(),
            "worker.actor.clip_ratio_dual");
}

TEST(Kl, WorkedExamples) {
  struct Case {
    double l, ref, k1, k2, k3, slope3;
  };
  const Case cases[] = {
      {-1, -1.2, .2, .02, .018731, .181269},    {-1, -.5, -.5, .125, .148721, -.648721},
      {-.1, -3, 2.9, 4.205, 1.955023, .944977}, {-5, -1, -4, 8, 10, 0},
      {-.01, -12, 11.99, 71.88005, 10, 0},
  };
  for (const Case& one : cases) {
    const KlToken k1 = EstimateKl(KlEstimator::kKl, one.l, one.ref);
    EXPECT_NEAR(k1.value, one.k1, 1e-9);
    EXPECT_EQ(k1.gradient, 1);
    const KlToken absolute = EstimateKl(KlEstimator::kAbs, one.l, one.ref);
    EXPECT_NEAR(absolute.value, std::abs(one.k1), 1e-9);
    EXPECT_EQ(absolute.gradient, one.k1 > 0 ? 1 : -1);
    const KlToken k2 = EstimateKl(KlEstimator::kMse, one.l, one.ref);
    EXPECT_NEAR(k2.value, one.k2, 1e-9);
    EXPECT_NEAR(k2.gradient, one.k1, 1e-9);
    const KlToken k3 = EstimateKl(KlEstimator::kLowVariance, one.l, one.ref);
    EXPECT_NEAR(k3.value, one.k3, 6e-7);
    EXPECT_NEAR(k3.gradient, one.slope3, 6e-7);
  }
  EXPECT_EQ(EstimateKl(KlEstimator::kAbs, -1, -1).gradient, 0);
}

TEST(Kl, FullIsRefusedWithTheReason) {
  const auto full = ParseKlEstimator("full");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code(), Errc::kUnsupported);
  EXPECT_EQ(full.error().member(), "algorithm.kl_penalty");
  EXPECT_NE(full.error().message().find("whole vocabulary"), std::string::npos);
  EXPECT_EQ(ParseKlEstimator("k3").error().code(), Errc::kUsage);
  EXPECT_TRUE(ParseKlEstimator("low_var_kl").ok());
}

TEST(Kl, PenaltyInTheRewards) {
  Floats now = {-1, -2}, ref = {-1.5f, -2}, rewards = {0, 1}, one = {-1}, far = {-2}, none = {0};
  const KlRow rows[] = {{now, ref, rewards}, {one, far, none}};
  const auto mean = PenalizeRewards(KlEstimator::kKl, 0.1, rows);
  ASSERT_TRUE(mean.ok());
  EXPECT_NEAR(*mean, (0.25 + 1) / 2, 1e-7);
  EXPECT_FLOAT_EQ(rewards[0], -0.05f);
  EXPECT_FLOAT_EQ(rewards[1], 1);
  EXPECT_FLOAT_EQ(none[0], -0.1f);
  const KlRow bad[] = {{now, far, rewards}};
  EXPECT_EQ(PenalizeRewards(KlEstimator::kKl, 0.1, bad).error().member(), "row 0");
}

TEST(Kl, Controllers) {
  KlController fixed = {.beta = .01};
  fixed.Update(5, 256);
  EXPECT_EQ(fixed.beta, .01);
  KlController adaptive = {.type = KlControl::kAdaptive, .beta = .01, .target = .1, .horizon = 1e4};
  adaptive.Update(5, 256);
  EXPECT_NEAR(adaptive.beta, .01 * (1 + .2 * 256 / 1e4), 1e-12);
  adaptive.beta = .01;
  adaptive.Update(.09, 256);
  EXPECT_NEAR(adaptive.beta, .01 * (1 - .1 * 256 / 1e4), 1e-12);
  EXPECT_EQ(ParseKlControl("adaptve").error().hint(), "did you mean adaptive?");
}

TEST(ValueLoss, ByFiniteDifferencesAndByHand) {
  // Inside the clip, outside where the clipped error is larger, outside where it is smaller.
  Floats values = {1.2f, 2.0f, 2.0f, -.5f}, old = {1, 1, 1, .25f}, returns = {1.5f, 3, 1, -1};
  Floats gradient(4);
  const ValueRow row[] = {{values, old, returns, gradient}};
  const auto metrics = ComputeValueLoss({}, {8, 2}, row);
  ASSERT_TRUE(metrics.ok());
  EXPECT_EQ(metrics->tokens, 4);
  EXPECT_NEAR(metrics->vf_loss, (.09 + 2.25 + 1 + .5625) / 8, 1e-6);
  EXPECT_NEAR(metrics->loss, metrics->vf_loss / 2, 1e-9);
  EXPECT_NEAR(metrics->clip_fraction, .5, 1e-9);
  EXPECT_NEAR(metrics->value_mean, 4.7 / 4, 1e-6);
  for (size_t t = 0; t < 4; ++t) {
    const float at = values[t];
    constexpr float kStep = 0x1p-10f;
    values[t] = at + kStep;
    const double above = ComputeValueLoss({}, {8, 2}, row)->loss;
    values[t] = at - kStep;
    const double slope = (above - ComputeValueLoss({}, {8, 2}, row)->loss) / (2.0 * kStep);
    values[t] = at;
    ASSERT_TRUE(ComputeValueLoss({}, {8, 2}, row).ok());
    EXPECT_NEAR(gradient[t], slope, 1e-6) << t;
  }
}

// The answer of torch 2.13 for the max of both squares: half of the gradient where they are equal
// and the value is clipped; all of it at the bound of the clip itself.
TEST(ValueLoss, TiesAreThoseOfTorch) {
  Floats values = {1.0f, 0.5f, 0.25f, 1.0f}, old = {0, 0, 0, 0}, returns = {.75f, 9, 1, .7f};
  const Floats torch = {0.125f, -8.5f, -0.75f, 0.30000001192092896f};
  for (size_t t = 0; t < values.size(); ++t) {
    Floats gradient(1);
    const ValueRow row[] = {{std::span(values).subspan(t, 1), std::span(old).subspan(t, 1),
                             std::span(returns).subspan(t, 1), gradient}};
    ASSERT_TRUE(ComputeValueLoss({}, {1, 1}, row).ok());
    EXPECT_NEAR(gradient[0], torch[t], 1e-7) << t;
  }
}

TEST(ValueLoss, NamesTheTokenThatIsNotFinite) {
  Floats values = {1, std::numeric_limits<float>::infinity()}, zero = {0, 0}, gradient(2);
  const ValueRow row[] = {{values, zero, zero, gradient}};
  const auto metrics = ComputeValueLoss({}, {2, 1}, row);
  ASSERT_FALSE(metrics.ok());
  EXPECT_EQ(metrics.error().code(), Errc::kCorrupt);
  EXPECT_NE(metrics.error().message().find("token 1 is"), std::string::npos);
}

}  // namespace
}  // namespace nxdkit::trainer
