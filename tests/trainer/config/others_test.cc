// Configurations of other programs: names of EasyR1's earlier releases, interpolations, paths,
// other trainers.
#include <fmt/core.h>
#include <stdlib.h>

#include "lib/system/process.h"
#include "tests/lib/temp_folder.h"
#include "tests/trainer/config/config_workshop.h"
#include "trainer/config/check_reward.h"
#include "trainer/config/key_table.h"
#include "trainer/config/old_names.h"
#include "trainer/config/plan.h"

namespace nxdkit::trainer::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::ExpectError;

// In the form of the examples in EasyR1's first release.
TEST(OldNames, AFileOfTheFirstReleaseIsTaken) {
  const LoadedConfig loaded = Load(R"(
algorithm: {adv_estimator: grpo, kl_coef: 0.0}
worker:
  actor:
    use_kl_loss: true
    kl_loss_coef: 1.0e-2
    kl_loss_type: low_var_kl
    ulysses_sequence_parallel_size: 1
    offload: {param_offload: true, optimizer_offload: true}
  rollout: {do_sample: true, free_cache_engine: false, max_num_seqs: 1024}
  ref: {offload: {param_offload: true}}
  reward: {compute_score: math}
trainer: {total_episodes: 3, test_freq: 5, remove_previous_ckpt: false}
)");
  const Config& config = loaded.config;
  EXPECT_EQ(config.trainer.total_epochs, 3);
  EXPECT_EQ(config.trainer.val_freq, 5);
  EXPECT_TRUE(config.algorithm.use_kl_loss);
  EXPECT_EQ(config.algorithm.kl_coef, 0.01);
  EXPECT_EQ(config.algorithm.kl_penalty, "low_var_kl");
  EXPECT_EQ(config.worker.reward.reward_function, "math");
  ASSERT_EQ(loaded.notes.size(), 3u);
  EXPECT_THAT(loaded.notes[0], HasSubstr("trainer.total_episodes as trainer.total_epochs"));
  EXPECT_THAT(loaded.notes[0], HasSubstr("kl_coef=0.01 in place of run.yaml line 2 column 34"));
  EXPECT_THAT(loaded.notes[1], HasSubstr("worker.ref.offload.param_offload"));
  EXPECT_EQ(loaded.notes[2],
            "this is of EasyR1's first releases; where nothing is said, there was then: 0.001 of "
            "the entropy in the loss (here none), clip_ratio_high 0.2 (here 0.3), no "
            "clip_ratio_dual (here 3.0), a system message that asks for steps and a boxed answer "
            "(here none)");
  EXPECT_EQ(loaded.PlaceOf("trainer.total_epochs"), "run.yaml line 13 column 11");
}

TEST(OldNames, OfTheFirstReleaseIsToldWhatIsNotSaid) {
  const LoadedConfig loaded = Load(
      "worker: {actor: {use_kl_loss: true, clip_ratio: 0.1, entropy_coeff: 0.0}}\n"
      "trainer: {test_freq: 5}");
  EXPECT_EQ(loaded.config.worker.actor.clip_ratio_low, 0.1);
  EXPECT_EQ(loaded.config.worker.actor.clip_ratio_high, 0.1);
  ASSERT_EQ(loaded.notes.size(), 3u);
  EXPECT_THAT(loaded.notes[1], HasSubstr("worker.actor.entropy_coeff"));
  EXPECT_EQ(loaded.notes[2],
            "this is of EasyR1's first releases; where nothing is said, there was then: no "
            "clip_ratio_dual (here 3.0), adv_estimator gae (here \"grpo\"), total_epochs 10 (here "
            "15), a system message that asks for steps and a boxed answer (here none)");
  EXPECT_THAT(Load("worker: {ref: {offload: {param_offload: true}}}").notes.back(),
              testing::EndsWith("no clip_ratio_dual (here 3.0)"));
  EXPECT_THAT(Load("trainer: {total_episodes: 3}").notes, testing::SizeIs(1));
}

TEST(OldNames, TheScheduleWasConstant) {
  const LoadedConfig loaded = Load(
      "worker: {actor: {optim: {warmup_style: constant}}, critic: {optim: {warmup_style: null}}}");
  EXPECT_EQ(loaded.config.worker.actor.optim.lr_scheduler_type, "constant");
  ASSERT_EQ(loaded.notes.size(), 1u);
  EXPECT_THAT(loaded.notes[0], HasSubstr("worker.critic.optim.warmup_style"));
  const auto error = ExpectError(Try("worker: {actor: {optim: {warmup_style: cosine}}}"),
                                 Errc::kUsage, "EasyR1 no longer has this key");
  EXPECT_EQ(
      error->hint(),
      "it had no effect then; say worker.actor.optim.lr_scheduler_type=cosine if you want it");
}

// As EasyR1 writes experiment_config.json.
TEST(OldNames, ADumpIsTaken) {
  const std::string dump = R"({"algorithm": {"use_kl_loss": true, "kl_coef": 0.01},
    "worker": {"actor": {"use_kl_loss": true, "kl_coef": 0.01, "optim": {"training_steps": 125}},
               "critic": {"optim": {"training_steps": 125}},
               "reward": {"reward_function": "/r/math.py", "reward_function_name": "score"}},
    "trainer": {"max_steps": null}})";
  const LoadedConfig loaded = Load(dump);
  EXPECT_EQ(loaded.config.worker.reward.reward_function, "/r/math.py:score");
  EXPECT_EQ(loaded.config.trainer.max_steps, std::nullopt);
  ASSERT_EQ(loaded.notes.size(), 2u);
  EXPECT_THAT(loaded.notes[0], HasSubstr("worker.reward.reward_function_name as "
                                         "worker.reward.reward_function=/r/math.py:score"));
  EXPECT_THAT(loaded.notes[1], HasSubstr("worker.critic.optim.training_steps"));
  // Overrides of keys that the dump's other keys are derived from.
  const Config other = Load(dump, {"algorithm.kl_coef=0.5", "algorithm.use_kl_loss=false",
                                   "worker.reward.reward_function=math"})
                           .config;
  EXPECT_EQ(other.algorithm.kl_coef, 0.5);
  EXPECT_FALSE(other.algorithm.use_kl_loss);
  EXPECT_EQ(other.worker.reward.reward_function, "math");
  ExpectError(Try(dump, {"worker.actor.kl_coef=0.5"}), Errc::kUsage, "derived");
  ExpectError(Try("worker: {reward: {reward_function: 'a.py:f', reward_function_name: g}}"),
              Errc::kUsage, "worker.reward.reward_function is a.py:f");
  ExpectError(Try("worker: {reward: {reward_function_name: g}}"), Errc::kUsage,
              "worker.reward.reward_function is not set");
}

TEST(OldNames, WhatWouldChangeTheRunIsRefusedWithWhatToDo) {
  const struct {
    const char* word;
    const char* fix;
  } rows[] = {
      {"data.system_prompt='Think.'", "data.format_prompt=FILE"},
      {"trainer.remove_previous_ckpt=true", "set trainer.save_limit=1 instead"},
      {"worker.actor.entropy_coeff=0.001", "there is no entropy in the loss"},
      {"worker.rollout.do_sample=false", "training always samples"},
      {"worker.reward.reward_type=model", "there is no reward model here"},
      {"data.train_batch_size=512", "the key is data.rollout_batch_size"},
      {"algorithm.kl_ctrl={kl_coef: 0.1}", "the key is algorithm.kl_coef"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.word);
    const auto error =
        ExpectError(Try("", {row.word}), Errc::kUsage, "EasyR1 no longer has this key");
    if (error) {
      EXPECT_THAT(error->hint(), HasSubstr(row.fix));
    }
  }
  EXPECT_THAT(Load("data: {system_prompt: null}").notes, testing::SizeIs(1));
}

TEST(OldNames, TodaysNameBesideThemSaysTheSame) {
  EXPECT_EQ(Load("trainer: {total_episodes: 3, total_epochs: 3}").config.trainer.total_epochs, 3);
  const auto error = ExpectError(Try("trainer: {total_episodes: 3, total_epochs: 4}"), Errc::kUsage,
                                 "this is trainer.total_epochs in today's EasyR1, which is 4");
  EXPECT_EQ(error->hint(), "leave one of them out");
  const std::string file = "trainer: {total_episodes: 3}";
  EXPECT_EQ(Load(file, {"trainer.total_epochs=5"}).config.trainer.total_epochs, 5);
  EXPECT_EQ(
      Load("trainer: {total_epochs: 5}", {"trainer.total_episodes=3"}).config.trainer.total_epochs,
      3);
}

TEST(OldNames, KlOfTheLossWasOnUnlessItWasSaid) {
  EXPECT_TRUE(Load("worker: {actor: {kl_loss_coef: 0.1}}").config.algorithm.use_kl_loss);
  const Config off =
      Load("algorithm: {kl_coef: 0.5}\nworker: {actor: {use_kl_loss: false, kl_loss_coef: 0.1}}")
          .config;
  EXPECT_FALSE(off.algorithm.use_kl_loss);
  EXPECT_EQ(off.algorithm.kl_coef, 0.5);
  ExpectError(Try("algorithm: {kl_coef: 0.5}\nworker: {actor: {use_kl_loss: true}}"), Errc::kUsage,
              "was the weight of KL in the reward");
  // A dump of today's release.
  const Config dump =
      Load(
          "algorithm: {kl_coef: 0.5, use_kl_loss: true}\n"
          "worker: {actor: {use_kl_loss: true, kl_coef: 0.5, global_batch_size_per_device: -1}}")
          .config;
  EXPECT_EQ(dump.algorithm.kl_coef, 0.5);
  ExpectError(Try("algorithm: {use_kl_loss: true}\nworker: {actor: {use_kl_loss: false}}"),
              Errc::kUsage, "derived");
  // Today's switch in the file gives today's names to the loss's keys.
  const auto differ =
      ExpectError(Try("algorithm: {use_kl_loss: true, kl_coef: 0.5}\n"
                      "worker: {actor: {kl_loss_coef: 0.1}}"),
                  Errc::kUsage, "this is algorithm.kl_coef in today's EasyR1, which is 0.5");
  EXPECT_EQ(differ->member(), "worker.actor.kl_loss_coef");
  const LoadedConfig coef = Load("worker: {actor: {kl_loss_coef: 0.1}}");
  EXPECT_THAT(coef.notes[0],
              HasSubstr(": worker.actor.kl_loss_coef as algorithm.use_kl_loss=true, kl_coef=0.1"));
  EXPECT_FALSE(Load("worker: {actor: {use_kl_loss: true}}", {"algorithm.use_kl_loss=false"})
                   .config.algorithm.use_kl_loss);
}

TEST(OldNames, EachHasAKeyOfToday) {
  for (const char* path :
       {"trainer.total_episodes", "worker.actor.clip_ratio",
        "worker.critic.optim.lr_warmup_steps_ratio", "worker.reward.score_function"}) {
    const OldName* row = FindOldName(path);
    ASSERT_NE(row, nullptr) << path;
    for (const std::string& name : SplitWords(row->becomes))
      EXPECT_NE(FindConfigKey(name), nullptr) << name;
    EXPECT_EQ(FindConfigKey(path), nullptr) << path;
  }
  EXPECT_EQ(ResolveReward("./examples/score_function/math.py:math_compute_score").name, "math");
  EXPECT_EQ(ResolveReward("./score_function/own.py:own_compute_score").kind, RewardKind::kPython);
}

TEST(UnknownKeys, ManyAreOneProblem) {
  const auto error = ExpectError(
      Try("algorithm: {contrastive_type: a, incorrect_weighting: 1, aug_patches: 1, w_outcome: 1}"),
      Errc::kUsage,
      "4 keys are not known: algorithm.contrastive_type, algorithm.incorrect_weighting, "
      "algorithm.aug_patches and 1 more");
  EXPECT_THAT(error->hint(), HasSubstr("a program derived from EasyR1"));
}

TEST(Interpolations, TakeTheValueOfAKey) {
  const LoadedConfig loaded = Load(
      "data: {rollout_batch_size: 64, mini_rollout_batch_size: \"${data.rollout_batch_size}\"}\n"
      "trainer:\n  experiment_name: a_${worker.rollout.n}\n"
      "  save_checkpoint_path: out/${trainer.project_name}/${.experiment_name}\n",
      {"worker.rollout.n=8"});
  EXPECT_EQ(loaded.config.data.mini_rollout_batch_size, 64);
  EXPECT_EQ(loaded.config.trainer.save_checkpoint_path, "out/easy_r1/a_8");
  EXPECT_EQ(loaded.PlaceOf("trainer.save_checkpoint_path"), "run.yaml line 4 column 3");
}

TEST(Interpolations, DottedKeysOfAFileAreKeys) {
  const LoadedConfig loaded = Load(
      "\"trainer.experiment_name\": 'a_${data.seed}_${trainer.project_name}'\n"
      "\"data.seed\": 7\ntrainer: {project_name: p, save_checkpoint_path: '${data.seed}/x'}\n");
  EXPECT_EQ(loaded.config.trainer.experiment_name, "a_7_p");
  EXPECT_EQ(loaded.config.trainer.save_checkpoint_path, "7/x");
  EXPECT_EQ(loaded.config.data.seed, 7);
  EXPECT_EQ(Load("worker: {\"rollout.n\": 3}\ntrainer: {experiment_name: 'n${worker.rollout.n}'}")
                .config.trainer.experiment_name,
            "n3");
  ExpectError(Try("\"actor_rollout_ref.model.path\": m"), Errc::kUnsupported, "of verl");
}

TEST(Interpolations, OlderNamesAreThereUnderTodays) {
  EXPECT_EQ(Load("trainer: {total_episodes: 3, experiment_name: 'e${trainer.total_epochs}_"
                 "${trainer.total_episodes}'}")
                .config.trainer.experiment_name,
            "e3_3");
}

TEST(Interpolations, FaultsAreToldByName) {
  const struct {
    const char* yaml;
    const char* message;
    const char* fix;
  } rows[] = {
      {"data: {seed: '${data.seed}'}", "${data.seed}: ", "write the value"},
      {"data: {seed: '${oc.env:SEED}'}",
       "${oc.env:SEED}: variables of the environment are not read here", "\"data.seed=$SEED\""},
      {"data: {seed: '${oc.env:SEED,1}'}", "${oc.env:SEED,1}:", "\"data.seed=$SEED\""},
      {"trainer: {experiment_name: 'a_${now:%Y}'}", "${now:%Y}: the time is not read here",
       "\"trainer.experiment_name=a_$(date +%Y)\""},
      {"trainer: {save_checkpoint_path: '${oc.env:OUT}/${trainer.project_name}/x${oc.env:I}_'}",
       "variables of the environment are not read here",
       "\"trainer.save_checkpoint_path=$OUT/\\${trainer.project_name}/x${I}_\""},
      {"trainer: {tensorboard_dir: '${trainer.save_checkpoint_path}/tb'}",
       "trainer.save_checkpoint_path is not set", "write the value"},
      {"trainer: {experiment_name: '${eval:1+1}'}", "${eval:1+1}: ", "write the value"},
      {"trainer: {experiment_name: '${data.sede}'}", "there is no data.sede", "write the value"},
      {"trainer: {experiment_name: '${USER}'}", "there is no USER", "write the value"},
      {"trainer: {experiment_name: '${HOME}'}", "HOME is not a key", "~ is the home folder"},
      {"trainer: {experiment_name: 'a${data'}", "a${data: it has no }", "write the value"},
      {"trainer: {experiment_name: '${a.${b}}'}", "one interpolation stands inside another", ""},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.yaml);
    const auto error = ExpectError(Try(row.yaml), Errc::kUsage, row.message);
    if (error) {
      EXPECT_THAT(error->hint(), HasSubstr(row.fix));
    }
  }
  ExpectError(Try("trainer: {experiment_name: '${trainer.project_name}', project_name: "
                  "'${trainer.experiment_name}'}"),
              Errc::kUsage, "trainer.experiment_name: ${trainer.project_name}: ");
  const auto word = ExpectError(Try("data: {seed: 1}", {"data.seed=${data.seed}"}), Errc::kUsage,
                                "${data.seed}: ");
  EXPECT_EQ(word->file(), "command line: data.seed=${data.seed}");
}

// Each refers to the one before twice: a gigabyte when expanded.
TEST(Interpolations, DoNotGrowWithoutEnd) {
  std::string yaml = "worker:\n  reward:\n    reward_function_kwargs:\n      a0: xxxxxxxx\n";
  for (int i = 1; i <= 15; ++i)
    yaml += fmt::format("      a{0}: '${{.a{1}}}${{.a{1}}}${{.a{1}}}${{.a{1}}}'\n", i, i - 1);
  ExpectError(Try(yaml), Errc::kUsage, "the value would be too large");
}

class UserPaths : public ::testing::Test {
 protected:
  UserPaths() : before_(EnvironmentValue("HOME")) { ::setenv("HOME", "/h/me", 1); }
  ~UserPaths() override { ::setenv("HOME", before_.c_str(), 1); }

 private:
  std::string before_;
};

TEST_F(UserPaths, AreThoseOfAShell) {
  const Config config =
      Load(
          "trainer: {save_checkpoint_path: ~/run, tensorboard_dir: '${HOME}/tb'}\n"
          "data: {train_files: ~/a.jsonl@test, val_files: 'exec:cat ~/x'}\n"
          "worker: {actor: {model: {model_path: $HOME/model}}}\n")
          .config;
  EXPECT_EQ(config.trainer.save_checkpoint_path, "/h/me/run");
  EXPECT_EQ(config.trainer.tensorboard_dir, "/h/me/tb");
  EXPECT_EQ(config.data.train_files, "/h/me/a.jsonl@test");
  EXPECT_EQ(config.data.val_files, "exec:cat ~/x");
  EXPECT_EQ(config.worker.actor.model.tokenizer_path, "/h/me/model");
}

TEST_F(UserPaths, UrlsAreRefusedForEveryPathKey) {
  int keys = 0;
  for (const ConfigKey& key : ConfigKeys()) {
    if (!IsPathLimit(key.limit)) continue;
    ++keys;
    const auto error = ExpectError(Try("", {key.path + "=s3://b/run"}), Errc::kUnsupported,
                                   "s3://b/run is a URL, expected a local path");
    if (error) {
      EXPECT_EQ(error->member(), key.path);
    }
  }
  EXPECT_EQ(keys, 12);
  EXPECT_TRUE(Try("", {"worker.rollout.url=['http://h:1']"}).ok());
}

TEST(Dtypes, HaveAllTheirNames) {
  for (const char* name : {"bf16", "bfloat16", "torch.bfloat16", "BF16"}) {
    const Config config = Load("", {fmt::format("worker.rollout.dtype={}", name),
                                    fmt::format("worker.actor.compute_dtype={}", name)})
                              .config;
    EXPECT_EQ(RolloutDtype(config.worker.rollout), Dtype::kBF16) << name;
    EXPECT_EQ(ComputeDtype(config), Dtype::kBF16) << name;
  }
  for (const char* name : {"fp32", "f32", "float32", "torch.float32", "float", "FP32"}) {
    const Config config = Load("", {fmt::format("worker.rollout.dtype={}", name),
                                    fmt::format("worker.actor.compute_dtype={}", name)})
                              .config;
    EXPECT_EQ(RolloutDtype(config.worker.rollout), Dtype::kF32) << name;
    EXPECT_EQ(config.worker.actor.compute_dtype, "f32") << name;
  }
  for (const char* name : {"fp16", "f16", "torch.float16", "int8"})
    EXPECT_THAT(Keys(Check({fmt::format("worker.rollout.dtype={}", name)})),
                ElementsAre("worker.rollout.dtype"))
        << name;
  for (const char* name : {"bf16", "bfloat16", "torch.bfloat16", "BF16"})
    EXPECT_THAT(Check({fmt::format("worker.actor.fsdp.mp_param_dtype={}", name)}).notes, IsEmpty())
        << name;
  EXPECT_THAT(Check({"worker.actor.fsdp.mp_reduce_dtype=float32"}).notes, IsEmpty());
  EXPECT_THAT(Check({"worker.actor.fsdp.mp_reduce_dtype=bfloat16"}).notes,
              ElementsAre(HasSubstr("mp_reduce_dtype = \"bf16\" has no effect")));
}

TEST(OtherPrograms, AreToldByTheirNames) {
  const struct {
    const char* yaml;
    const char* name;
  } rows[] = {
      {"actor_rollout_ref: {actor: {strategy: fsdp}}\ndata: {train_batch_size: 1024}",
       "a configuration of verl"},
      {"stage: sft\nfinetuning_type: lora\nmodel_name_or_path: m\ncutoff_len: 1024",
       "a configuration of LLaMA-Factory"},
      {"model_name_or_path: m\nnum_generations: 8\nper_device_train_batch_size: 1",
       "a configuration of TRL"},
      {"pretrain: m\nmicro_train_batch_size: 4\nprompt_data: d", "a configuration of OpenRLHF"},
      {"name: hf_llama\nmodel_source: hf\ntrainer: {devices: 32}\nexp_manager: {a: 1}\n"
       "distributed_strategy: {tensor_model_parallel_size: 8}",
       "a configuration of NxD Training"},
      {"policy: {a: 1}\ngrpo: {b: 1}\ncluster: {c: 1}", "a configuration of NeMo-RL"},
      {"base_model: m\ndatasets: [a]\nsequence_len: 1\nadapter: lora",
       "a configuration of axolotl"},
      {"{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\"}",
       "the config.json of a model"},
      {"zero_optimization: {stage: 3}", "a configuration of DeepSpeed"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.yaml);
    const auto error =
        ExpectError(Try(row.yaml), Errc::kUnsupported, std::string("this is ") + row.name);
    if (error) {
      EXPECT_FALSE(error->hint().empty());
    }
  }
  const auto word =
      ExpectError(Try("", {"actor_rollout_ref.model.path=m"}), Errc::kUnsupported, "of verl");
  EXPECT_EQ(word->file(), "command line");
  const testing_util::TempFolder folder;
  testing_util::WriteText(folder / "run.sh", "#!/bin/bash\nset -x\n");
  ExpectError(LoadConfig(folder / "run.sh", {}), Errc::kUnsupported, "this is a script");
  testing_util::WriteText(folder / "page.yaml", "\n<!doctype html>\n<html></html>\n");
  ExpectError(LoadConfig(folder / "page.yaml", {}), Errc::kCorrupt, "a web page lies");
}

}  // namespace
}  // namespace nxdkit::trainer::test
