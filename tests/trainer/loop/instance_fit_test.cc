// EasyR1's port to Trainium: Qwen3-4B on one trn1.32xlarge, with half of the cores for each side.
#include "trainer/loop/instance_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/kinds/rollout/rollout_use.h"
#include "trainer/config/load.h"

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;

// As published: 4,022,468,096 parameters, tied.
constexpr char kPortModel[] = R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"],
  "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36,
  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
  "tie_word_embeddings": true, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
  "max_position_embeddings": 40960, "hidden_act": "silu"})";

class InstanceFit : public ::testing::Test {
 protected:
  static DecoderConfig Model() {
    auto model = ParseDecoderConfig(kPortModel, "config.json");
    EXPECT_TRUE(model.ok()) << model.error().ToString();
    return *std::move(model);
  }
  static Config Port(std::vector<std::string> words = {}) {
    const std::vector<std::string> base = {"trainer.cores=32",
                                           "trainer.separate_rollout_workers=true",
                                           "worker.actor.tensor_parallel_size=8",
                                           "worker.actor.optim.strategy=adamw_bf16",
                                           "worker.rollout.tensor_parallel_size=8",
                                           "worker.rollout.engine=vllm",
                                           "data.max_prompt_length=2048",
                                           "data.max_response_length=1024",
                                           "data.rollout_batch_size=64",
                                           "worker.actor.global_batch_size=64",
                                           "worker.rollout.n=4"};
    words.insert(words.begin(), base.begin(), base.end());
    const auto loaded = LoadConfig("", words);
    EXPECT_TRUE(loaded.ok()) << loaded.error().ToString();
    return loaded->config;
  }
  static std::vector<hardware::Fit> Fits(const Config& config, const EngineShape& engine,
                                         const DecoderConfig* critic = nullptr) {
    const auto instance = hardware::FindInstance("trn1.32xlarge");
    EXPECT_TRUE(instance.ok());
    const auto fits = FitInstance(**instance, config, MakeRunPlan(config), Model(), engine, critic);
    EXPECT_TRUE(fits.ok()) << fits.error().ToString();
    return fits.ok() ? *fits : std::vector<hardware::Fit>();
  }
  static double Row(const hardware::Fit& fit, const std::string& what) {
    for (const hardware::MemoryRow& row : fit.rows)
      if (row.what == what) return static_cast<double>(row.bytes);
    ADD_FAILURE() << "no row " << what;
    return 0;
  }
  const EngineShape bundle_{.tp = 8, .slots = 64, .positions = 4096, .place = EnginePlace::kDevice};
};

TEST_F(InstanceFit, TheBundleTakesWhatNeuronExportSays) {
  const auto fits = Fits(Port(), bundle_);
  ASSERT_EQ(fits.size(), 2u);
  EXPECT_EQ(FitText(fits[1]),
            "weights 1.03 GiB + KV cache 4.50 GiB = 5.53 GiB of 16.00 GiB a core (35 %)");
  rollout::NeuronConfig made;
  made.tp = 8;
  made.batch_size = 64;
  made.sequence_length = 4096;
  const auto use = ops::RolloutUseOf(Model().model, made, Dtype::kBF16);
  ASSERT_TRUE(use.ok());
  // 4,410,952,... elements over 8 ranks: the head is stored although it is tied.
  EXPECT_EQ(Row(fits[1], "weights"), static_cast<double>(use->weight_bytes));
  EXPECT_EQ(Row(fits[1], "KV cache"), static_cast<double>(use->cache_bytes()));
}

// m, v and the Kahan term in bfloat16, over two data parallel ranks.
TEST_F(InstanceFit, AdamwBf16HasThreeStates) {
  constexpr double kRank = 4022468096.0 / 8;
  const auto fits = Fits(Port(), bundle_);
  EXPECT_NEAR(Row(fits[0], "optimizer"), 6 * kRank / 2, 1e-3 * 6 * kRank / 2);
  EXPECT_NEAR(Row(fits[0], "gradients"), 2 * kRank, 1e-3 * 2 * kRank);
  const auto fixed = Fits(Port({"worker.actor.optim.strategy=adamw_bf16_fixed"}), bundle_);
  EXPECT_EQ(Row(fixed[0], "optimizer"), Row(fits[0], "optimizer"));
  const auto mixed = Fits(Port({"worker.actor.optim.strategy=adamw"}), bundle_);
  EXPECT_NEAR(Row(mixed[0], "optimizer"), 12 * kRank / 2, 1e-3 * 12 * kRank / 2);
}

TEST_F(InstanceFit, ACriticIsCountedByTheSameRule) {
  const Config config =
      Port({"algorithm.adv_estimator=gae", "worker.critic.optim.strategy=adamw_bf16"});
  const DecoderConfig critic = Model();
  const auto fits = Fits(config, bundle_, &critic);
  EXPECT_EQ(Row(fits[0], "critic"),
            Row(fits[0], "weights") + Row(fits[0], "gradients") + Row(fits[0], "optimizer"));
}

TEST_F(InstanceFit, ServersElsewhereTakeNothingOfTheInstance) {
  EngineShape elsewhere = bundle_;
  elsewhere.place = EnginePlace::kElsewhere;
  const auto fits = Fits(Port(), elsewhere);
  ASSERT_EQ(fits.size(), 1u);
  EXPECT_THAT(FitText(fits[0]), ::testing::Not(HasSubstr("KV cache")));
}

}  // namespace
}  // namespace nxdkit::trainer
