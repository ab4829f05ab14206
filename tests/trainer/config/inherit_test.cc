#include "trainer/config/inherit.h"

#include <algorithm>
#include <fstream>

#include "tests/lib/temp_folder.h"
#include "tests/trainer/config/config_workshop.h"
#include "trainer/config/inherit_verl.h"
#include "trainer/config/key_table.h"

namespace nxdkit::trainer::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing_util::ExpectError;

class InheritedConfig : public ::testing::Test {
 protected:
  Inherited Read(const std::string& text, const std::string& name = "config.yaml") {
    const std::string path = folder_ / name;
    std::ofstream(path) << text;
    Result<Inherited> inherited = ReadInherited(path);
    EXPECT_TRUE(inherited.ok()) << (inherited.ok() ? "" : inherited.error().ToString());
    return inherited.ok() ? *inherited : Inherited();
  }
  static Config Loaded(const Inherited& inherited, const std::string& yaml = "",
                       const std::vector<std::string>& words = {}) {
    const Result<LoadedConfig> loaded = LoadConfigText(yaml, "own.yaml", words, &inherited);
    EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().ToString());
    return loaded.ok() ? loaded->config : Config();
  }
  static std::string WhyLeft(const Inherited& inherited, const std::string& key) {
    for (const InheritedKey& one : inherited.keys)
      if (one.theirs == key) return one.left;
    return "not there";
  }
  testing_util::TempFolder folder_;
};

TEST_F(InheritedConfig, RowsOfVerlNameKeysThatThereAre) {
  for (const bool of_loss : {true, false}) {
    std::vector<VerlKey> rows(VerlKeys().begin(), VerlKeys().end());
    rows.insert(rows.end(), VerlKlKeys(of_loss).begin(), VerlKlKeys(of_loss).end());
    for (const VerlKey& row : rows) {
      EXPECT_EQ(row.ours.empty(), !row.left.empty()) << row.theirs;
      EXPECT_TRUE(row.ours.empty() || FindConfigKey(row.ours)) << row.theirs;
    }
  }
}

// They replace defaults; a file and the command line have precedence.
TEST_F(InheritedConfig, EasyR1sKeysAreOurs) {
  const Inherited inherited = Read(R"({"data": {"max_prompt_length": 1024, "seed": 1},
      "worker": {"actor": {"model": {"model_path": "Qwen/Qwen3-0.6B"}, "global_batch_size": 64,
                           "fsdp": {"enable_cpu_offload": true}},
                 "rollout": {"n": 5, "prompt_length": 1024}},
      "algorithm": {"kl_penalty": "low_var_kl", "kl_coef": 0.01},
      "trainer": {"nnodes": 2, "save_checkpoint_path": "/data/run", "val_freq": 5}})",
                                   "experiment_config.json");
  EXPECT_EQ(inherited.program, "EasyR1");
  const Config config = Loaded(inherited, "worker: {rollout: {n: 8}}", {"trainer.val_freq=7"});
  EXPECT_EQ(config.data.max_prompt_length, 1024);
  EXPECT_EQ(config.worker.actor.global_batch_size, 64);
  EXPECT_EQ(config.algorithm.kl_penalty, "low_var_kl");
  EXPECT_EQ(config.algorithm.kl_coef, 0.01);
  EXPECT_EQ(config.worker.rollout.n, 8);
  EXPECT_EQ(config.trainer.val_freq, 7);
  EXPECT_EQ(config.trainer.nnodes, 1);
  EXPECT_EQ(config.worker.actor.model.model_path, std::nullopt);
  EXPECT_EQ(WhyLeft(inherited, "trainer.nnodes"), "depends on the machines of that run");
  EXPECT_EQ(WhyLeft(inherited, "trainer.save_checkpoint_path"), "a new run has its own");
  EXPECT_EQ(WhyLeft(inherited, "worker.actor.fsdp.enable_cpu_offload"), "not there");
  EXPECT_THAT(InheritedLines(inherited), Contains("taken  data.max_prompt_length=1024"));
}

TEST_F(InheritedConfig, WhatIsNotBuiltIsLeftWithItsReason) {
  const Inherited inherited = Read(R"({"worker": {"actor": {"model": {"lora": {"rank": 64}},
      "optim": {"strategy": "lion"}, "max_grad_norm": "much"}},
      "algorithm": {"adv_estimator": "grpo"}})");
  EXPECT_THAT(WhyLeft(inherited, "worker.actor.model.lora.rank"), HasSubstr("LoRA is not trained"));
  EXPECT_THAT(WhyLeft(inherited, "worker.actor.optim.strategy"), HasSubstr("there are adamw"));
  EXPECT_THAT(WhyLeft(inherited, "worker.actor.max_grad_norm"), HasSubstr("expected float"));
  EXPECT_EQ(Loaded(inherited).worker.actor.optim.strategy, "adamw");
}

constexpr const char* kVerl = R"(
actor_rollout_ref:
  model: {path: ~/models/deepseek}
  actor:
    ppo_mini_batch_size: 128
    ppo_epochs: ${oc.select:actor_rollout_ref.none,2}
    loss_agg_mode: seq-mean-token-mean
    use_kl_loss: true
    kl_loss_coef: 0.002
    kl_loss_type: low_var_kl
    entropy_coeff: 0.01
    optim: {lr: 2.0e-6, lr_warmup_steps: -1, weight_decay: '${oc.env:DECAY}'}
  rollout: {n: 6, temperature: 0.8}
critic:
  ppo_mini_batch_size: ${actor_rollout_ref.actor.ppo_mini_batch_size}
data: {train_files: [one.parquet], train_batch_size: 256}
algorithm:
  adv_estimator: grpo
  use_kl_in_reward: false
  kl_penalty: kl
  kl_ctrl: {kl_coef: 0.5}
trainer: {test_freq: 5, nnodes: 4, device: cuda}
)";

TEST_F(InheritedConfig, VerlsKeysHaveTheirCounterparts) {
  const Inherited inherited = Read(kVerl);
  EXPECT_EQ(inherited.program, "verl");
  const Config config = Loaded(inherited);
  EXPECT_EQ(config.worker.actor.global_batch_size, 128);
  EXPECT_EQ(config.worker.critic.global_batch_size, 128);
  EXPECT_EQ(config.worker.actor.ppo_epochs, 2);
  EXPECT_EQ(config.worker.actor.loss_avg_mode, "seq");
  EXPECT_EQ(config.worker.actor.optim.lr, 2e-6);
  EXPECT_EQ(config.worker.actor.optim.lr_warmup_steps, std::nullopt);
  EXPECT_EQ(config.worker.rollout.n, 6);
  EXPECT_EQ(config.worker.rollout.temperature, 0.8);
  EXPECT_EQ(config.data.train_files, "one.parquet");
  EXPECT_EQ(config.data.rollout_batch_size, 256);
  EXPECT_EQ(config.trainer.val_freq, 5);
  // The KL term of the loss is on, that of the reward is off.
  EXPECT_TRUE(config.algorithm.use_kl_loss);
  EXPECT_FALSE(config.algorithm.disable_kl);
  EXPECT_EQ(config.algorithm.kl_coef, 0.002);
  EXPECT_EQ(config.algorithm.kl_penalty, "low_var_kl");
  EXPECT_THAT(WhyLeft(inherited, "actor_rollout_ref.actor.entropy_coeff"), HasSubstr("no entropy"));
  EXPECT_THAT(WhyLeft(inherited, "actor_rollout_ref.model.path"), HasSubstr("checkpoint"));
  EXPECT_THAT(WhyLeft(inherited, "actor_rollout_ref.actor.optim.weight_decay"),
              HasSubstr("not in the file"));
  EXPECT_GT(inherited.others, 1u);
}

// A name that begins with a dot is a sibling of the key with the value, through other keys too.
TEST_F(InheritedConfig, ReferencesAreRelativeToWhereTheyStand) {
  const Config config = Loaded(
      Read("actor_rollout_ref: {rollout: {n: 3}}\ndata: {train_batch_size: '${x.y}', z: 64}\n"
           "x: {y: '${.z}', z: 128}\n"));
  EXPECT_EQ(config.data.rollout_batch_size, 128);
}

TEST_F(InheritedConfig, KlIsNotTurnedOffWhereNobodyKnows) {
  const Inherited inherited = Read(
      "actor_rollout_ref: {actor: {use_kl_loss: '${oc.env:USE_KL}', entropy_coeff: 0.0,\n"
      "  clip_ratio: 0.25}}\n");
  const Config config = Loaded(inherited);
  EXPECT_FALSE(config.algorithm.disable_kl);
  EXPECT_THAT(WhyLeft(inherited, "actor_rollout_ref.actor.use_kl_loss"), HasSubstr("KL"));
  EXPECT_EQ(WhyLeft(inherited, "actor_rollout_ref.actor.entropy_coeff"), "not there");
  EXPECT_EQ(config.worker.actor.clip_ratio_low, 0.25);
  EXPECT_EQ(config.worker.actor.clip_ratio_high, 0.25);
}

TEST_F(InheritedConfig, WithoutKlThereIsNone) {
  const Config config =
      Loaded(Read("actor_rollout_ref: {actor: {use_kl_loss: false}}\n"
                  "algorithm: {use_kl_in_reward: false}\n"));
  EXPECT_TRUE(config.algorithm.disable_kl);
}

TEST_F(InheritedConfig, ReferencesThatGoRoundEnd) {
  const Inherited inherited = Read(
      "actor_rollout_ref: {actor: {ppo_epochs: '${critic.ppo_epochs}'}}\n"
      "critic: {ppo_epochs: '${actor_rollout_ref.actor.ppo_epochs}'}\n");
  EXPECT_THAT(WhyLeft(inherited, "critic.ppo_epochs"), HasSubstr("not in the file"));
}

// Whatever a byte of the file becomes, accepted values fit their keys.
TEST_F(InheritedConfig, MutationsAreReadOrRefused) {
  const std::string whole = kVerl;
  size_t read = 0;
  for (size_t i = 0; i < whole.size(); ++i)
    for (const char c : {'\0', ' ', '$', ':', '{', '9'}) {
      std::string changed = whole;
      changed[i] = c;
      std::ofstream(folder_ / "changed.yaml") << changed;
      const Result<Inherited> inherited = ReadInherited(folder_ / "changed.yaml");
      if (!inherited.ok()) continue;
      ++read;
      // A path may be invalid; the error names the key.
      const Result<LoadedConfig> loaded = LoadConfigText("", "", {}, &*inherited);
      EXPECT_TRUE(loaded.ok() || loaded.error().member() == "data.train_files") << i;
    }
  EXPECT_GT(read, 1000u);
}

TEST_F(InheritedConfig, AnotherProgramsIsRefused) {
  std::ofstream(folder_ / "other.json") << R"({"model_name_or_path": "x"})";
  ExpectError(ReadInherited(folder_ / "other.json"), Errc::kUnsupported,
              "a configuration of neither EasyR1 nor verl");
}

}  // namespace
}  // namespace nxdkit::trainer::test
