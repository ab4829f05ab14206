// Draws over a grid of numbers from [0, 1): an inverse distribution function gives every token as
// often as its probability, exactly except at the ends of its piece.
#include "trainer/rollout/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "trainer/comm/comm.h"

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;

constexpr int kVocab = 1200;  // not a multiple of the blocks that masses are summed in
constexpr int kGrid = 1000;

std::vector<float> Logits() {
  std::vector<float> logits;
  for (int i = 0; i < kVocab; ++i)
    logits.push_back(static_cast<float>((i * 7919 + 13) % 1009) / 250.0f);
  return logits;
}

// Every draw has the same row.
Result<std::vector<Drawn>> SampleOn(int ranks, const std::vector<Draw>& draws,
                                    const std::vector<float>& logits) {
  std::vector<Drawn> out;
  const int columns = kVocab / ranks;
  const Status done = ThreadWorld(ranks).Run([&](Comm& tp) -> Status {
    std::vector<float> mine;
    for (size_t row = 0; row < draws.size(); ++row)
      mine.insert(mine.end(), logits.begin() + tp.rank() * columns,
                  logits.begin() + (tp.rank() + 1) * columns);
    Sampler sampler(tp, columns);
    std::vector<Drawn> drawn;
    NXDKIT_TRY(sampler.Sample(draws, mine.data(), drawn));
    if (tp.rank() == 0) out = drawn;
    return OkStatus();
  });
  if (!done.ok()) return done.error();
  return out;
}

std::vector<Draw> Grid(const SamplingParams& params) {
  std::vector<Draw> draws;
  for (int i = 0; i < kGrid; ++i) draws.push_back({&params, (i + 0.5) / kGrid, 0, 0});
  return draws;
}

// Probabilities by the definition in sampler.h, in double.
std::vector<double> Expected(const SamplingParams& params, const std::vector<float>& logits) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(params.top_k)));
  std::vector<double> weights;
  for (const size_t i : order)
    weights.push_back(std::exp(double{logits[i]} / double{params.temperature}));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double reached = 0;
  size_t kept = 0;
  while (kept < order.size() && (kept == 0 || reached < double{params.top_p} * sum))
    reached += weights[kept++];
  std::vector<double> out(logits.size());
  for (size_t i = 0; i < kept; ++i) out[order[i]] = weights[i] / reached;
  return out;
}

TEST(Sampler, DrawsEveryTokenAsOftenAsItShould) {
  const std::vector<float> logits = Logits();
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 1}, SamplingParams{.temperature = 0.3f},
        SamplingParams{.temperature = 2, .top_k = 7},
        SamplingParams{.temperature = 1, .top_p = 0.35f},
        SamplingParams{.temperature = 3, .top_p = 0.98f},
        SamplingParams{.temperature = 0.5f, .top_k = 400, .top_p = 0.6f},
        SamplingParams{.temperature = 1, .top_k = 5000}}) {
    const std::vector<double> expected = Expected(params, logits);
    for (const int ranks : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message()
                   << "temperature " << params.temperature << " top_k " << params.top_k << " top_p "
                   << params.top_p << " on " << ranks);
      const auto drawn = SampleOn(ranks, Grid(params), logits);
      ASSERT_TRUE(drawn.ok()) << drawn.error().ToString();
      std::vector<int> counts(kVocab);
      for (const Drawn& one : *drawn) ++counts[static_cast<size_t>(one.token)];
      for (size_t i = 0; i < kVocab; ++i)
        ASSERT_LE(std::abs(counts[i] - expected[i] * kGrid), 1.5) << "token " << i;
    }
  }
}

TEST(Sampler, LogProbsAreOfTheWholeVocabularyAfterTemperature) {
  const std::vector<float> logits = Logits();
  for (const float temperature : {0.0f, 0.7f})
    for (const int ranks : {1, 4}) {
      const SamplingParams params = {.temperature = temperature, .top_k = 5, .log_probs = true};
      const auto drawn = SampleOn(ranks, Grid(params), logits);
      ASSERT_TRUE(drawn.ok());
      const double t = temperature > 0 ? double{temperature} : 1.0;
      double sum = 0;
      for (const float z : logits) sum += std::exp(double{z} / t);
      for (const Drawn& one : *drawn)
        ASSERT_NEAR(one.log_prob,
                    double{logits[static_cast<size_t>(one.token)]} / t - std::log(sum), 1e-5);
    }
}

TEST(Sampler, GreedyTakesTheLowestOfEqualIds) {
  std::vector<float> logits = Logits();
  logits[700] = logits[900] = logits[1100] = 9;
  const SamplingParams greedy = {.temperature = 0};
  for (const int ranks : {1, 2, 4}) {
    const auto drawn = SampleOn(ranks, {{&greedy, 0.999, 0, 0}}, logits);
    ASSERT_TRUE(drawn.ok());
    EXPECT_EQ(drawn->front().token, 700);
  }
}

TEST(Sampler, EqualLogitsAreCutInTheOrderOfTheirIds) {
  const std::vector<float> flat(kVocab, 0.25f);
  const SamplingParams three = {.temperature = 1, .top_k = 3};
  const SamplingParams most = {.temperature = 1, .top_p = 0.999f};
  for (const int ranks : {1, 4}) {
    const auto drawn = SampleOn(ranks, {{&three, 0.99, 0, 0}, {&most, 0.9999999, 0, 0}}, flat);
    ASSERT_TRUE(drawn.ok());
    EXPECT_EQ(drawn->at(0).token, 2);
    EXPECT_EQ(drawn->at(1).token, 1198);  // 1199 tokens have 0.99916 of the mass
  }
}

// Rows of all kinds together give the same as each alone.
TEST(Sampler, RowsDoNotDisturbEachOther) {
  const std::vector<float> logits = Logits();
  const std::vector<SamplingParams> kinds = {{.temperature = 0, .log_probs = true},
                                             {.temperature = 1},
                                             {.temperature = 1, .top_p = 0.9f, .log_probs = true},
                                             {.temperature = 0.4f, .top_k = 9}};
  std::vector<Draw> draws;
  for (size_t i = 0; i < 12; ++i)
    draws.push_back({&kinds[i % kinds.size()], static_cast<double>(i) / 12, 0, 0});
  for (const int ranks : {1, 2}) {
    const auto together = SampleOn(ranks, draws, logits);
    ASSERT_TRUE(together.ok());
    for (size_t i = 0; i < draws.size(); ++i) {
      const auto alone = SampleOn(ranks, {draws[i]}, logits);
      ASSERT_TRUE(alone.ok());
      EXPECT_EQ(together->at(i).token, alone->front().token) << i;
      EXPECT_EQ(together->at(i).log_prob, alone->front().log_prob) << i;
    }
  }
}

TEST(Sampler, LogitsThatAreNotFiniteAreRefused) {
  const SamplingParams params = {.temperature = 1};
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits = Logits();
    logits[777] = bad;
    const auto drawn = SampleOn(2, {{&params, 0.5, 17, 4}}, logits);
    ASSERT_FALSE(drawn.ok());
    EXPECT_EQ(drawn.error().code(), Errc::kCorrupt);
    EXPECT_THAT(drawn.error().message(), HasSubstr("token 4 of request 17"));
  }
}

}  // namespace
}  // namespace nxdkit::trainer
