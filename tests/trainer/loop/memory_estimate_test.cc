#include "trainer/loop/memory_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/model/model_lab.h"
#include "trainer/config/load.h"
#include "trainer/model/decoder.h"

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Qwen3-4B as published: 4,022,468,096 parameters, tied.
constexpr char kQwen3[] = R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"],
  "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36,
  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
  "tie_word_embeddings": true, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
  "max_position_embeddings": 40960, "hidden_act": "silu"})";

// The shapes of Qwen3-0.6B with a score: 596,049,920 parameters, and 1024 + 1.
constexpr char kCritic[] = R"({"model_type": "qwen3",
  "architectures": ["Qwen3ForTokenClassification"], "id2label": {"0": "LABEL_0"},
  "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
  "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
  "tie_word_embeddings": true, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
  "max_position_embeddings": 40960, "hidden_act": "silu"})";

class MemoryEstimateTest : public ::testing::Test {
 protected:
  std::map<std::string, double> Parts(std::vector<std::string> overrides) const {
    const MemoryEstimate estimate = Estimate(std::move(overrides));
    std::map<std::string, double> parts;
    for (const MemoryPart& part : estimate.parts)
      parts[part.name] = static_cast<double>(part.bytes);
    return parts;
  }
  MemoryEstimate Estimate(std::vector<std::string> overrides,
                          EnginePlace place = EnginePlace::kHost) const {
    const std::vector<std::string> base = {
        "trainer.cores=32",
        "trainer.separate_rollout_workers=true",
        "worker.actor.tensor_parallel_size=8",
        "worker.rollout.tensor_parallel_size=8",
        "data.max_prompt_length=2048",
        "data.max_response_length=1024",
        "data.rollout_batch_size=64",
        "worker.actor.global_batch_size=64",
        "worker.rollout.n=4",
        "worker.actor.micro_batch_size_per_device_for_update=1",
        "worker.actor.micro_batch_size_per_device_for_experience=1"};
    overrides.insert(overrides.begin(), base.begin(), base.end());
    const auto loaded = LoadConfig("", overrides);
    EXPECT_TRUE(loaded.ok()) << loaded.error().ToString();
    const auto model = ParseDecoderConfig(kQwen3, "config.json");
    EXPECT_TRUE(model.ok()) << model.error().ToString();
    const auto critic = ParseDecoderConfig(kCritic, "config.json");
    EXPECT_TRUE(critic.ok()) << critic.error().ToString();
    const auto estimate = EstimateMemory(loaded->config, MakeRunPlan(loaded->config), *model,
                                         {8, 64, 4096, Dtype::kBF16, place},
                                         NeedsCritic(loaded->config) ? &*critic : nullptr);
    EXPECT_TRUE(estimate.ok()) << estimate.error().ToString();
    return *estimate;
  }
};

constexpr double kParams = 4022468096.0;
// Each data-parallel rank holds all of it, except for the optimizer, which is cut over them.
constexpr double kMesh = 2;

TEST_F(MemoryEstimateTest, CountsWhatTheOptimizerAndTheDtypeKeep) {
  // Norms are on every rank.
  const auto near = [](double expected) {
    return ::testing::DoubleNear(expected, 1e-3 * expected);
  };
  const auto f32 = Parts({});
  EXPECT_THAT(f32.at("weights"), near(4 * kMesh * kParams));
  EXPECT_THAT(f32.at("gradients"), near(4 * kMesh * kParams));
  EXPECT_THAT(f32.at("optimizer"), near(8 * kParams));
  EXPECT_THAT(f32.at("reference"), near(4 * kMesh * kParams));
  const auto bf16 = Parts({"worker.actor.compute_dtype=bf16",
                           "worker.actor.optim.strategy=adamw_bf16", "algorithm.disable_kl=true"});
  EXPECT_THAT(bf16.at("weights"), near(2 * kMesh * kParams));
  EXPECT_THAT(bf16.at("optimizer"), near(6 * kParams));
  EXPECT_FALSE(bf16.contains("reference"));
  const auto master = Parts({"worker.actor.compute_dtype=bf16"});
  EXPECT_THAT(master.at("optimizer"), near(12 * kParams));
}

TEST_F(MemoryEstimateTest, CountsCachesAndActivations) {
  const auto parts = Parts({});
  // 147,456 bytes a token over all ranks, 64 slots of 4096, two workers.
  EXPECT_EQ(parts.at("KV cache"), 2 * 147456.0 * 4096 * 64);
  const auto kept = Parts({"worker.actor.model.enable_gradient_checkpointing=false"});
  const auto rows = Parts({"worker.actor.micro_batch_size_per_device_for_update=4"});
  EXPECT_GT(kept.at("activations"), 3 * parts.at("activations"));
  // Each rank keeps the gradients of as many logits as fit one budget, however many rows there are.
  const double budget = 16 * static_cast<double>(DecoderOptions().kept_bytes);
  EXPECT_NEAR((rows.at("activations") - budget) / (parts.at("activations") - budget), 4, 0.6);
  // The layers' inputs of one row of 3072 tokens on 16 ranks, f32.
  EXPECT_GT(parts.at("activations"), 16 * 36.0 * 3072 * 2560 * 4);
}

// A compiled bundle's weights and cache are on the cores: two engines of 44 GiB each do not count
// in this machine's memory.
TEST_F(MemoryEstimateTest, AnEngineOnTheDeviceTakesNoneOfTheMachines) {
  for (const EnginePlace place : {EnginePlace::kDevice, EnginePlace::kElsewhere}) {
    const MemoryEstimate estimate = Estimate({}, place);
    for (const MemoryPart& part : estimate.parts) {
      EXPECT_NE(part.name, "KV cache");
      EXPECT_NE(part.name, "rollout weights");
      EXPECT_NE(part.name, "rollout passes");
    }
    EXPECT_LT(estimate.bytes() + uint64_t{2} * 147456 * 4096 * 64, Estimate({}).bytes());
  }
}

TEST_F(MemoryEstimateTest, CountsTheCritic) {
  EXPECT_FALSE(Parts({}).contains("critic"));
  const std::vector<std::string> gae = {
      "algorithm.adv_estimator=gae", "worker.critic.global_batch_size=64",
      "worker.critic.micro_batch_size_per_device_for_update=1",
      "worker.critic.micro_batch_size_per_device_for_experience=1"};
  const auto parts = Parts(gae);
  // f32 weights and gradients and 8 bytes of optimizer.
  constexpr double kCriticParams = 596049920.0 + 1025;
  constexpr double kExpected = (8 * kMesh + 8) * kCriticParams;
  EXPECT_NEAR(parts.at("critic"), kExpected, 0.01 * kExpected);
  EXPECT_GT(parts.at("critic's activations"), 16 * 28.0 * 3072 * 1024 * 4);
  EXPECT_LT(parts.at("critic's activations"), parts.at("activations"));
  EXPECT_EQ(parts.at("weights"), Parts({}).at("weights"));
}

TEST_F(MemoryEstimateTest, TooLittleIsRefusedWithTheNumbersAndTheKeys) {
  const MemoryEstimate estimate = Estimate({});
  constexpr uint64_t kGib = uint64_t{1} << 30;
  EXPECT_TRUE(CheckMemory(estimate, estimate.bytes()).ok());
  const Status refused = CheckMemory(estimate, 24 * kGib);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::kLimit);
  EXPECT_THAT(refused.error().message(), HasSubstr("GiB, and there are 24.0: weights 30.0, "
                                                   "gradients 30.0, optimizer 30.0"));
  EXPECT_THAT(refused.error().hint(), HasSubstr("weights: worker.actor.compute_dtype=bf16"));
  EXPECT_THAT(refused.error().hint(), HasSubstr("trainer.check_memory=false"));
  EXPECT_THAT(MemoryText(estimate, 24 * kGib), HasSubstr("GiB of 24.0: weights 30.0"));
}

std::string HintOf(const MemoryEstimate& estimate) {
  return CheckMemory(estimate, 0).error().hint();
}

TEST_F(MemoryEstimateTest, HintsNameNothingThatIsSetAlready) {
  const std::string one_rank = "trainer.cores=16";  // of each half of the model: nothing is cut
  const std::vector<std::string> narrow = {"worker.actor.optim.strategy=adamw_bf16",
                                           "data.max_response_length=100000"};
  EXPECT_THAT(HintOf(Estimate({one_rank})),
              HasSubstr("optimizer: worker.actor.optim.strategy=adamw_bf16 "
                        "with worker.actor.compute_dtype=bf16"));
  EXPECT_THAT(HintOf(Estimate({one_rank, "worker.actor.compute_dtype=bf16"})),
              HasSubstr("optimizer: worker.actor.optim.strategy=adamw_bf16;"));
  const std::string hint = HintOf(Estimate(narrow));
  EXPECT_THAT(hint, HasSubstr("activations: data.max_response_length;"));
  EXPECT_THAT(hint, Not(HasSubstr("adamw_bf16")));
  EXPECT_THAT(hint, Not(HasSubstr("compute_dtype=bf16")));
  const std::string passes = HintOf(Estimate(
      {"data.max_response_length=100000", "worker.actor.micro_batch_size_per_device_for_update=2",
       "worker.actor.model.enable_gradient_checkpointing=false"}));
  EXPECT_THAT(passes, HasSubstr("worker.actor.micro_batch_size_per_device_for_update, "
                                "worker.actor.model.enable_gradient_checkpointing=true"));
}

}  // namespace
}  // namespace nxdkit::trainer
