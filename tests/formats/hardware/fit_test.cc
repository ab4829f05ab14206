// The worked examples: Qwen3-4B as a rollout bundle, Llama-3-8B in training; computed by hand from
// the models' configurations.
#include "formats/hardware/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"

namespace nxdkit::hardware {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::ExpectError;

const Instance& Of(std::string_view name) { return **FindInstance(name); }

// 4.411e9 elements over the ranks: the output head is stored although it is tied.
RolloutUse Qwen3_4B(int64_t tp, int64_t batch, int64_t sequence) {
  return {.tp = tp,
          .weight_bytes = uint64_t{4'411'000'000} * 2 / static_cast<uint64_t>(tp),
          .layers = 36,
          .batch = batch,
          .sequence = sequence,
          .kv_heads_per_rank = (8 + tp - 1) / tp,
          .head_dim = 128};
}

TEST(FitRollout, Qwen3_4BAtTp8) {
  const Fit fit = FitRollout(Of("trn1.32xlarge"), Qwen3_4B(8, 64, 4096));
  EXPECT_THAT(fit.problems, IsEmpty());
  EXPECT_THAT(fit.warnings, IsEmpty());
  EXPECT_EQ(FitText(fit),
            "weights 1.03 GiB + KV cache 4.50 GiB = 5.53 GiB of 16.00 GiB a core (35 %)");
  EXPECT_EQ(fit.data_parallel, 4) << "engines of 8 cores";
  EXPECT_EQ(fit.smallest, "inf2.24xlarge");
}

TEST(FitRollout, WhatDoesNotFitSaysByHowMuch) {
  const Fit two = FitRollout(Of("trn1.32xlarge"), Qwen3_4B(2, 64, 4096));
  EXPECT_THAT(two.problems, ElementsAre("weights 4.11 GiB + KV cache 18.00 GiB = 22.11 GiB of "
                                        "16.00 GiB a core (138 %): more than a core has"));
  EXPECT_EQ(two.smallest, "trn2.3xlarge") << "24 GiB a core";
  const Fit long_ones = FitRollout(Of("trn1.32xlarge"), Qwen3_4B(8, 128, 8192));
  EXPECT_THAT(long_ones.problems, Contains(HasSubstr("KV cache 18.00 GiB")));
}

TEST(FitRollout, AFullCoreIsAWarning) {
  const Fit fit = FitRollout(Of("trn1.32xlarge"), Qwen3_4B(8, 192, 4096));  // 1.03 + 13.5
  EXPECT_THAT(fit.problems, IsEmpty());
  EXPECT_THAT(fit.warnings, ElementsAre(HasSubstr("(91 %): the rest may be too little")));
}

TEST(FitRollout, KnowsTheSizesThatEnginesTake) {
  EXPECT_THAT(
      FitRollout(Of("trn1.32xlarge"), Qwen3_4B(4, 1, 128)).problems,
      ElementsAre(
          "NxD Inference does not accept tp 4 on trn1.32xlarge; it accepts 1, 2, 8, 16, 32"));
  EXPECT_THAT(FitRollout(Of("trn1.2xlarge"), Qwen3_4B(8, 1, 128)).problems,
              ElementsAre("8 ranks, and trn1.2xlarge has 2 cores"));
  EXPECT_THAT(FitRollout(Of("trn2.48xlarge"), Qwen3_4B(4, 1, 128)).problems, IsEmpty());
}

// The model of NxD Training's tutorial: multipliers 4, 2 and 1 of the key/value heads.
TrainingUse Llama3_8B(int64_t tp, uint64_t rank_elements, int64_t nodes = 1) {
  return {.tp = tp,
          .rank_elements = rank_elements,
          .nodes = nodes,
          .sequence = 8192,
          .hidden = 4096,
          .layers = 32,
          .vocab = 128256};
}

std::vector<std::string> Rows(const Fit& fit) {
  std::vector<std::string> rows;
  for (const MemoryRow& row : fit.rows)
    rows.push_back(row.what + " " + std::to_string((row.bytes * 100 + (1 << 29)) >> 30));
  return rows;
}

TEST(FitTraining, Llama3_8BAtTp32) {
  const Fit fit = FitTraining(Of("trn1.32xlarge"), Llama3_8B(32, 276'000'000));
  EXPECT_THAT(Rows(fit), ElementsAre("weights 51", "gradients 103", "optimizer 308",
                                     "activations 106", "logits 37"));
  EXPECT_THAT(fit.problems, IsEmpty());
  EXPECT_EQ(fit.data_parallel, 1);
  EXPECT_EQ(fit.smallest, "trn1.32xlarge");
}

TEST(FitTraining, Zero1CutsTheOptimizerOverTheNodes) {
  const Fit four = FitTraining(Of("trn1.32xlarge"), Llama3_8B(32, 276'000'000, 4));
  EXPECT_EQ(four.data_parallel, 4);
  EXPECT_THAT(Rows(four), Contains("optimizer 77"));
  TrainingUse whole = Llama3_8B(32, 276'000'000, 4);
  whole.zero1 = false;
  EXPECT_THAT(Rows(FitTraining(Of("trn1.32xlarge"), whole)), Contains("optimizer 308"));
}

// Its memory would suffice; its replica groups do not (enc_init_comm fails).
TEST(FitTraining, RefusesTp16OnTrn1) {
  const Fit fit = FitTraining(Of("trn1.32xlarge"), Llama3_8B(16, 519'000'000));
  EXPECT_THAT(fit.problems, ElementsAre("the collectives of trn1.32xlarge do not accept tp 16 in "
                                        "training (replica groups); they accept 1, 2, 8, 32"));
  EXPECT_EQ(fit.smallest, "trn2.48xlarge");
}

// As in the tutorial: out of memory with the runtime's own share.
TEST(FitTraining, WarnsAtTp8) {
  const Fit fit = FitTraining(Of("trn1.32xlarge"), Llama3_8B(8, 1'004'000'000));
  EXPECT_THAT(Rows(fit), ElementsAre("weights 187", "gradients 374", "optimizer 281",
                                     "activations 425", "logits 147"));
  EXPECT_THAT(fit.problems, IsEmpty());
  EXPECT_THAT(fit.warnings, ElementsAre(HasSubstr("(88 %): the rest may be too little")));
}

TEST(FitTraining, NeedsCoresThatTrainAndDivide) {
  EXPECT_THAT(FitTraining(Of("inf2.48xlarge"), Llama3_8B(8, 1)).problems,
              ElementsAre("inf2.48xlarge is for inference only"));
  TrainingUse use = Llama3_8B(8, 1);
  use.pp = 3;
  EXPECT_THAT(FitTraining(Of("trn1.32xlarge"), use).problems,
              ElementsAre("tp 8 x pp 3 does not divide the 32 cores of 1 x trn1.32xlarge"));
}

TEST(FitTraining, ContextParallelRanksShareASequence) {
  TrainingUse use = Llama3_8B(8, 1'004'000'000);
  const Fit whole = FitTraining(Of("trn1.32xlarge"), use);
  use.cp = 4;
  const Fit cut = FitTraining(Of("trn1.32xlarge"), use);
  EXPECT_EQ(cut.rows[3].bytes, whole.rows[3].bytes / 4) << cut.rows[3].what;
  EXPECT_EQ(cut.data_parallel, 1);
  use.cp = 3;
  EXPECT_THAT(FitTraining(Of("trn1.32xlarge"), use).problems,
              Contains("tp 8 x pp 1 x cp 3 does not divide the 32 cores of 1 x trn1.32xlarge"));
}

TEST(FitTraining, TheLargerOfTwoMicroBatchesHoldsTheLogits) {
  TrainingUse use = Llama3_8B(32, 276'000'000);
  const uint64_t one = FitTraining(Of("trn1.32xlarge"), use).rows[4].bytes;
  use.scored = 4;
  const Fit fit = FitTraining(Of("trn1.32xlarge"), use);
  EXPECT_EQ(fit.rows[4].what, "logits");
  EXPECT_EQ(fit.rows[4].bytes, 4 * one);
}

TEST(FitTraining, WarnsOfJobsOfASizeThatNobodyRuns) {
  TrainingUse use = Llama3_8B(8, 276'000'000);
  use.cores = 16;
  EXPECT_THAT(FitTraining(Of("trn1.32xlarge"), use).warnings,
              Contains("jobs of NxD Training on trn1.32xlarge have 1, 2, 8, 32 workers, not 16"));
}

TEST(FitTraining, RolloutBesideTakesCoresToo) {
  TrainingUse use = Llama3_8B(32, 276'000'000);
  use.cores = 32;
  use.cores_beside = 32;
  const Fit fit = FitTraining(Of("trn1.32xlarge"), use);
  EXPECT_THAT(fit.problems, ElementsAre("32 cores are to train and 32 to roll out, and "
                                        "trn1.32xlarge has 32"));
}

// The largest part is the one to change.
TEST(Fit, TheHintNamesWhatMovesMost) {
  constexpr Levers kLevers{.parallel = "P", .micro_batch = "M", .cache = "C"};
  const auto hint = [&](const Fit& fit) {
    const Status status = CheckFit(fit, kLevers);
    return status.ok() ? "fits" : status.error().hint();
  };
  EXPECT_THAT(hint(FitRollout(Of("trn1.32xlarge"), Qwen3_4B(8, 1024, 65536))),
              HasSubstr("another C"));
  TrainingUse use = Llama3_8B(8, 1'004'000'000);
  use.sequence = 1 << 20;
  EXPECT_THAT(hint(FitTraining(Of("trn1.32xlarge"), use)), HasSubstr("another M"));
  use = Llama3_8B(8, 1'004'000'000);
  use.pp = 3;
  EXPECT_THAT(hint(FitTraining(Of("trn1.32xlarge"), use)), HasSubstr("another P"));
}

TEST(Fit, SizesThatOverflowAreLargeNotSmall) {
  RolloutUse use = Qwen3_4B(8, int64_t{1} << 40, int64_t{1} << 40);
  EXPECT_EQ(use.cache_bytes(), UINT64_MAX);
  EXPECT_FALSE(FitRollout(Of("trn2.48xlarge"), use).problems.empty());
}

TEST(Instance, UnknownOnesOfferTheNearest) {
  const auto error = ExpectError(FindInstance("trn1.32xlrge"), Errc::kUsage, "trn1.32xlrge is not");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->hint(), "did you mean trn1.32xlarge?");
  const auto other = ExpectError(FindInstance("p5.48xlarge"), Errc::kUsage, "p5.48xlarge is not");
  ASSERT_TRUE(other);
}

// Qwen3-4B at tp 8 as EasyR1's port trains it: adamw_bf16, no ZeRO-1, and a frozen reference model.
TEST(FitTraining, WhatLiesBesideAndFewerBytesOfStates) {
  TrainingUse use{.tp = 8,
                  .rank_elements = 503'000'000,
                  .cores = 16,
                  .zero1 = false,
                  .states = States::kBf16Kahan,
                  .sequence = 3072,
                  .hidden = 2560,
                  .layers = 36,
                  .vocab = 151'936,
                  .recompute = true,
                  .beside = {{"reference", 2 * uint64_t{503'000'000}}}};
  const Fit fit = FitTraining(Of("trn1.32xlarge"), use);
  EXPECT_THAT(fit.problems, IsEmpty());
  EXPECT_EQ(fit.data_parallel, 2);
  EXPECT_EQ(FitText(fit),
            "weights 0.94 GiB + gradients 0.94 GiB + optimizer 2.81 GiB + activations 0.10 GiB + "
            "logits 0.65 GiB + reference 0.94 GiB = 6.37 GiB of 16.00 GiB a core (40 %)");
  EXPECT_THAT(fit.assumed, HasSubstr("all states in bfloat16, a compensation among them"));
  use.states = States::kBf16;  // NxD's own has no compensation
  EXPECT_THAT(Rows(FitTraining(Of("trn1.32xlarge"), use)), Contains("optimizer 187"));
  use.states = States::kMixed;
  EXPECT_THAT(Rows(FitTraining(Of("trn1.32xlarge"), use)), Contains("optimizer 562"));
  use.cores = 40;
  EXPECT_THAT(FitTraining(Of("trn1.32xlarge"), use).problems,
              Contains("40 cores are to train, and trn1.32xlarge has 32"));
}

// m, v and a compensation of two bytes each, over two ranks; besides weight and gradient.
TEST(TrainedBytes, CountsEveryState) {
  EXPECT_EQ(TrainedBytes(1000, States::kBf16Kahan, 2), 2000u + 2000 + 3000);
  EXPECT_EQ(TrainedBytes(1000, States::kBf16, 1), 2000u + 2000 + 4000);
  EXPECT_EQ(TrainedBytes(1000, States::kMixed, 4), 2000u + 4000 + 3000);
  EXPECT_EQ(TrainedBytes(UINT64_MAX, States::kMixed, 1), UINT64_MAX);
}

}  // namespace
}  // namespace nxdkit::hardware
