// The actor on meshes: the same updates for every number of ranks and micro-batches, and a restored
// one that continues bit for bit.
#include "trainer/learner/mesh_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "formats/ops/convert/convert.h"
#include "formats/ops/digest/digest.h"
#include "tests/formats/words.h"
#include "tests/trainer/model/model_lab.h"

namespace nxdkit::trainer {
namespace {

std::vector<Row> SampleRows(size_t count) {
  std::vector<Row> rows(count);
  for (size_t r = 0; r < count; ++r) {
    for (size_t i = 0; i < 2 + r % 3; ++i)
      rows[r].prompt.push_back(static_cast<int32_t>((r * 13 + i * 5 + 1) % 64));
    for (size_t i = 0; i < 1 + (r * 7) % 5; ++i)
      rows[r].response.push_back(static_cast<int32_t>((r * 3 + i * 11 + 2) % 64));
  }
  return rows;
}

MeshOptions Options(int tp, int dp) {
  MeshOptions options;
  options.tp = tp;
  options.dp = dp;
  options.update.max_tokens = options.experience.max_tokens = 40;
  options.optimizer.adam.weight_decay = 0.1;
  return options;
}

// Reinforces every token, the first rows most: any fixed function of row and token will do.
Status SampleLoss(int, bool, std::span<const size_t> chosen, std::span<const float> log_probs,
                  std::span<float> gradient) {
  const std::vector<Row> rows = SampleRows(8);
  size_t at = 0;
  for (const size_t r : chosen)
    for (size_t i = 0; i < rows[r].response.size(); ++i, ++at)
      gradient[at] = -std::exp(log_probs[at]) / static_cast<float>(r + 1);
  return OkStatus();
}

class ActorTest : public ::testing::Test {
 protected:
  std::unique_ptr<MeshModel> Make(const MeshOptions& options) const {
    auto actor = MeshModel::Make(lab_.config(), options, lab_.source());
    EXPECT_TRUE(actor.ok()) << actor.error().ToString();
    return *std::move(actor);
  }
  static UpdateResult Update(MeshModel& actor, int steps = 1) {
    const std::vector<Row> rows = SampleRows(8);
    const size_t dp = static_cast<size_t>(actor.options().dp);
    std::vector<std::vector<size_t>> shares(dp);
    for (size_t r = 0; r < rows.size(); ++r) shares[r * dp / rows.size()].push_back(r);
    UpdateResult last;
    for (int step = 0; step < steps; ++step) {
      const auto result = actor.Update(rows, shares, SampleLoss, 1e-2);
      EXPECT_TRUE(result.ok()) << result.error().ToString();
      last = *result;
    }
    return last;
  }
  // All tokens of all rows.
  static Floats LogProbs(MeshModel& actor) {
    const auto result = actor.Evaluate(SampleRows(8));
    EXPECT_TRUE(result.ok());
    Floats all;
    for (const auto& row : result->outputs) all.insert(all.end(), row.begin(), row.end());
    return all;
  }
  std::string Save(MeshModel& actor, const std::string& name) const {
    const OptimizerMemory optimizer = actor.optimizer();
    ops::ConvertRequest request;
    request.source = [&]() -> Result<ops::BoundArtifact> {
      return BindTraining(lab_.source().artifact, lab_.config().model, actor.weights(), &optimizer);
    };
    request.to = &ops::kNxd;
    request.output = folder_.Path(name);
    request.options.Set("tp", actor.options().tp);
    request.options.Set("dp", actor.options().dp);
    request.options.Set("hw", Word(models::Hardware::kTrn1));
    request.sync = false;
    const auto report = ops::Convert(request);
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    return request.output;
  }
  const ModelLab lab_{testing_util::TinyQwen3()};
  const testing_util::Scratch folder_;
};

TEST_F(ActorTest, EveryMeshMakesTheSameUpdate) {
  const auto one = Make(Options(1, 1));
  const Floats before = LogProbs(*one);
  const UpdateResult expected = Update(*one);
  const Floats after = LogProbs(*one);
  float moved = 0;
  for (size_t i = 0; i < after.size(); ++i) moved = std::max(moved, std::abs(after[i] - before[i]));
  EXPECT_GT(moved, 0.01f) << "nothing was learned, so nothing is compared";
  EXPECT_GT(expected.grad_norm, 0);
  for (const auto& [tp, dp] : {std::pair(2, 1), {1, 2}, {2, 2}, {4, 2}, {1, 4}}) {
    const auto actor = Make(Options(tp, dp));
    const UpdateResult found = Update(*actor);
    EXPECT_NEAR(found.grad_norm, expected.grad_norm, 1e-5 * expected.grad_norm) << tp << "x" << dp;
    const Floats log_probs = LogProbs(*actor);
    // The first step of Adam follows the sign of the gradient: where that is rounding noise, so is
    // the step. Few elements are, and their effect on a log-probability is small.
    for (size_t i = 0; i < after.size(); ++i)
      EXPECT_NEAR(log_probs[i], after[i], 1e-3) << tp << "x" << dp << " token " << i;
  }
}

TEST_F(ActorTest, MicroBatchesDoNotMatter) {
  MeshOptions single = Options(1, 1);
  single.update.max_rows = 1;
  const auto apart = Make(single);
  const Floats expected = LogProbs(*apart);
  const double norm = Update(*apart).grad_norm;
  for (const int64_t tokens : {1, 12, 20, 33, 1000}) {
    SCOPED_TRACE(tokens);
    MeshOptions packed = Options(1, 2);
    packed.update.max_tokens = packed.experience.max_tokens = tokens;
    const auto together = Make(packed);
    const Floats found = LogProbs(*together);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5) << i;
    EXPECT_NEAR(Update(*together).grad_norm, norm, 1e-5 * norm);
  }
}

TEST_F(ActorTest, GoesOnBitForBitAfterARestore) {
  for (const OptimizerType type :
       {OptimizerType::kAdamW, OptimizerType::kAdamWBf16, OptimizerType::kAdamWBf16Fixed}) {
    for (const Dtype compute : {Dtype::kF32, Dtype::kBF16}) {
      if (type != OptimizerType::kAdamW && compute == Dtype::kF32) continue;
      MeshOptions options = Options(2, 2);
      options.optimizer.type = type;
      options.decoder.compute = compute;
      const auto whole = Make(options);
      Update(*whole, 5);
      const auto first = Make(options);
      Update(*first, 3);
      const std::string tag = Save(*first, fmt::format("{}{}", int(type), int(compute)));
      const auto second = Make(options);
      ASSERT_TRUE(second->Restore(tag, {}).ok());
      EXPECT_EQ(second->optimizer().step, 3);
      Update(*second, 2);
      EXPECT_EQ(LogProbs(*second), LogProbs(*whole)) << int(type) << int(compute);
    }
  }
}

// ZeRO-1: the data-parallel ranks together hold all of the state, once.
TEST_F(ActorTest, TheOptimizerIsCutOverTheDataParallelRanks) {
  MeshOptions options = Options(2, 2);
  options.decoder.compute = Dtype::kBF16;
  const auto actor = Make(options);
  const OptimizerMemory memory = actor->optimizer();
  std::vector<RankMemory> all = memory.masters;
  for (const OptimizerMemory::Entry& entry : memory.entries)
    all.insert(all.end(), entry.ranks.begin(), entry.ranks.end());
  ASSERT_EQ(all.size(), 6u);
  for (const RankMemory& rank : all) {
    ASSERT_EQ(rank.parts.size(), 2u);
    EXPECT_EQ(rank.parts[0].range.begin, 0);
    EXPECT_EQ(rank.parts[0].range.end, rank.parts[1].range.begin);
    EXPECT_EQ(rank.parts[1].range.end, rank.table->size);
    EXPECT_NEAR(static_cast<double>(rank.parts[0].range.size()),
                static_cast<double>(rank.table->size) / 2,
                static_cast<double>(rank.table->size) / 10);
  }
}

// During the backward pass or after it, in one bucket or in one for each layer.
TEST_F(ActorTest, OverlappedSumsHaveTheSameBits) {
  for (const auto& [tp, dp] : {std::pair(1, 2), {2, 2}, {1, 4}}) {
    const auto outcome = [&](Overlap overlap, int64_t bucket) {
      MeshOptions options = Options(tp, dp);
      options.update.max_rows =
          1;  // several micro-batches: only the last one's gradients are final
      options.overlap = overlap;
      options.least_bucket = bucket;
      const auto actor = Make(options);
      const double norm = Update(*actor, 3).grad_norm;
      EXPECT_EQ(actor->optimizer().entries[0].ranks[0].parts.size(),
                static_cast<size_t>(dp) * (bucket == 1 ? 6 : 1));
      return std::pair(norm, LogProbs(*actor));
    };
    const auto after = outcome(Overlap::kNever, 0);
    EXPECT_EQ(outcome(Overlap::kNever, 1), after) << tp << "x" << dp;
    EXPECT_EQ(outcome(Overlap::kAlways, 1), after) << tp << "x" << dp;
    EXPECT_EQ(outcome(Overlap::kAlways, 0), after) << tp << "x" << dp;
  }
}

TEST_F(ActorTest, AFailureEndsAnUpdateThatIsBeingSummed) {
  MeshOptions options = Options(1, 2);
  options.overlap = Overlap::kAlways;
  options.least_bucket = 1;
  const auto actor = Make(options);
  const auto fails = [](int dp_rank, bool record, std::span<const size_t> chosen,
                        std::span<const float> log_probs, std::span<float> gradient) -> Status {
    if (dp_rank == 1) return Error(Errc::kFindings, "no loss");
    return SampleLoss(dp_rank, record, chosen, log_probs, gradient);
  };
  const auto result = actor->Update(SampleRows(8), {{0, 1, 2, 3}, {4, 5, 6, 7}}, fails, 1e-2);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message(), "no loss");
}

TEST_F(ActorTest, SkipsAGradientThatIsNotFinite) {
  const auto actor = Make(Options(2, 1));
  const Floats before = LogProbs(*actor);
  std::vector<size_t> share(8);
  std::iota(share.begin(), share.end(), size_t{0});
  const auto result = actor->Update(
      SampleRows(8), {share},
      [](int, bool, std::span<const size_t>, std::span<const float>, std::span<float> gradient) {
        gradient[0] = NAN;
        return OkStatus();
      },
      1e-2);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->skipped);
  EXPECT_EQ(LogProbs(*actor), before);
  EXPECT_EQ(actor->optimizer().step, 0);
}

TEST_F(ActorTest, RefusesRowsThatDoNotDivide) {
  const auto actor = Make(Options(1, 2));
  const auto result = actor->Evaluate(SampleRows(7));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message(), "7 rows cannot be divided over 2 data parallel ranks");
}

}  // namespace
}  // namespace nxdkit::trainer
