#include "trainer/report/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "lib/system/system.h"

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::map<std::string, double> AsMap(const Metrics& metrics) {
  const MetricRecord record = metrics.Means();
  return {record.begin(), record.end()};
}

TEST(Metrics, ManyValuesBecomeTheirPlainMean) {
  Metrics rank0;
  rank0.Add("actor/pg_loss", 1);
  rank0.Add("actor/pg_loss", 2);
  Metrics rank1;
  rank1.Add("actor/pg_loss", 6);
  rank1.Set("actor/lr", 0.5);
  rank0.Merge(rank1);
  EXPECT_THAT(rank0.Means(), ElementsAre(Pair("actor/lr", 0.5), Pair("actor/pg_loss", 3)));
}

TEST(Metrics, WeightsCountOverRanksToo) {
  Metrics rank0;
  rank0.Add("actor/kl_loss", 1, 3);
  Metrics rank1;
  rank1.Add("actor/kl_loss", 5, 1);
  rank0.Merge(rank1);
  EXPECT_THAT(rank0.Means(), ElementsAre(Pair("actor/kl_loss", 2)));
}

TEST(Metrics, StatsOfNothingAreNotLogged) {
  Metrics metrics;
  AddStats(metrics, "critic/score", {});
  AddLengths(metrics, "response_length", {}, 5);
  EXPECT_TRUE(metrics.Means().empty());
}

TEST(Metrics, StatsAndLengths) {
  Metrics metrics;
  const float scores[] = {1, -2, 4};
  const int64_t lengths[] = {10, 16, 16, 2};
  AddStats(metrics, "critic/score", scores);
  AddLengths(metrics, "response_length", lengths, 1);
  const auto map = AsMap(metrics);
  EXPECT_EQ(map.at("critic/score/mean"), 1);
  EXPECT_EQ(map.at("critic/score/max"), 4);
  EXPECT_EQ(map.at("critic/score/min"), -2);
  EXPECT_EQ(map.at("response_length/mean"), 11);
  EXPECT_EQ(map.at("response_length/clip_ratio"), 0.25) << "one of the two was cut";
}

TEST(ExplainedVariance, OfAPerfectAndAUselessCritic) {
  const float returns[] = {1, 2, 3, 4};
  const float constant[] = {5, 5, 5, 5};
  EXPECT_NEAR(ExplainedVariance(returns, returns), 1, 1e-12);
  EXPECT_NEAR(ExplainedVariance(returns, constant), 0, 1e-4);
  EXPECT_EQ(ExplainedVariance({}, {}), 0);
}

// Qwen3-4B: the weights of its products are all except norms and the input embedding, and the head
// counts in addition to the published number of parameters (it is tied).
TEST(TrainingFlops, OfQwen3) {
  const ModelCost qwen3_4b = {36, 2560, 9728, 32, 8, 128, 151936};
  const int64_t lengths[] = {100, 300};
  const double layer = 2560.0 * (3 * 9728 + 2 * 4096 + 2 * 1024);
  const double weights = 36 * layer + 2.0 * 151936 * 2560;
  const double norms = 36 * (2 * 2560 + 2 * 128) + 2560;
  EXPECT_EQ(weights - 151936.0 * 2560 + norms, 4022468096.0);
  EXPECT_DOUBLE_EQ(TrainingFlops(qwen3_4b, lengths),
                   6 * weights * 400 + 12 * 100000.0 * 128 * 32 * 36);
}

TEST(Performance, ThroughputAndMfuArePerDevice) {
  Metrics metrics;
  AddPerformance(metrics, {.tokens = 6000,
                           .seconds = 10,
                           .devices = 8,
                           .training_devices = 4,
                           .actor = {.flops = 8e12, .seconds = 2},
                           .critic = {.flops = 1e12, .seconds = 1},
                           .peak_tflops = 2});
  const auto map = AsMap(metrics);
  EXPECT_EQ(map.at("perf/throughput"), 75);
  EXPECT_EQ(map.at("perf/mfu_actor"), 0.5);
  EXPECT_EQ(map.at("perf/mfu_critic"), 0.125);
  EXPECT_EQ(map.at("perf/time_per_step"), 10);
  // Under a sanitizer it is not reported.
  EXPECT_EQ(map.at("perf/cpu_memory_used_gb") > 0, RssBytes() > 0);
  EXPECT_GE(map.at("perf/max_memory_allocated_gb"), map.at("perf/cpu_memory_used_gb") * 0.99);
  Metrics unknown;
  AddPerformance(unknown, {.tokens = 6000, .seconds = 10, .actor = {.flops = 1, .seconds = 2}});
  EXPECT_FALSE(AsMap(unknown).contains("perf/mfu_actor")) << "the peak is not known";
}

TEST(Timings, PerTokenOfWhatThePhaseReads) {
  Metrics metrics;
  AddTimings(metrics, {{"gen", 2}, {"update_actor", 3}, {"validation", 5}}, 1000, 3000);
  EXPECT_THAT(metrics.Means(),
              ElementsAre(Pair("timing_per_token_ms/gen", 2),
                          Pair("timing_per_token_ms/update_actor", 1), Pair("timing_s/gen", 2),
                          Pair("timing_s/update_actor", 3), Pair("timing_s/validation", 5)));
}

TEST(PhaseTimer, SumsWhatRunsTwice) {
  double now = 100;
  PhaseTimer timer([&] { return now; });
  timer.Begin("gen");
  now += 2;
  timer.Begin("reward");
  now += 1;
  timer.End();
  now += 50;
  timer.Begin("gen");
  now += 3;
  EXPECT_THAT(timer.Take(), ElementsAre(Pair("gen", 5), Pair("reward", 1)));
  EXPECT_TRUE(timer.Take().empty());
}

}  // namespace
}  // namespace nxdkit::trainer
