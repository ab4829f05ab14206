#include "trainer/config/check.h"

#include "tests/lib/temp_folder.h"
#include "tests/trainer/config/config_workshop.h"
#include "trainer/config/check_model.h"
#include "trainer/config/check_reward.h"

namespace nxdkit::trainer::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::ExpectError;

TEST(CheckConfig, AGoodOneHasNoProblems) {
  const ConfigCheck check = Check({});
  EXPECT_THAT(Keys(check), IsEmpty()) << check.status().error().ToString();
  EXPECT_THAT(check.notes, IsEmpty());
  EXPECT_EQ(check.plan.data_parallel, 2);
  EXPECT_EQ(check.plan.rollout_workers, 4);
  EXPECT_EQ(check.plan.rows_per_update, 8);
  EXPECT_EQ(check.plan.updates_per_step, 2);
}

struct Violation {
  std::vector<std::string> overrides;
  const char* key;
  const char* message;
  const char* fix;
};

// One rule at a time, on a configuration that satisfies all others.
TEST(CheckConfig, EachRuleShowsItsNumbers) {
  const Violation rows[] = {
      {{"worker.actor.global_batch_size=3"},
       "worker.actor.global_batch_size",
       "data.rollout_batch_size 8 is not a multiple of 3",
       "legal values of worker.actor.global_batch_size: 8, 4, 2, 1"},
      {{"worker.actor.micro_batch_size_per_device_for_experience=5"},
       "worker.actor.micro_batch_size_per_device_for_experience",
       "8 prompts x 4 responses = 32 sequences are not a multiple of 5",
       "legal values: 32, 16, 8, 4, 2, 1"},
      {{"worker.actor.micro_batch_size_per_device_for_experience=32",
        "worker.actor.dynamic_batching=false"},
       "worker.actor.micro_batch_size_per_device_for_experience",
       "8 prompts x 4 responses / 2 data-parallel ranks = 16 sequences are not a multiple of 32",
       "legal values: 16, 8, 4, 2, 1"},
      {{"worker.rollout.n=1", "worker.actor.micro_batch_size_per_device_for_experience=8"},
       "worker.rollout.n",
       "grpo compares the responses to one prompt, and there is 1",
       "2 or more"},
      {{"worker.actor.optim.strategy=adamw_bf16", "worker.actor.compute_dtype=f32"},
       "worker.actor.optim.strategy",
       "adamw_bf16 is for bf16 weights, and worker.actor.compute_dtype is f32",
       "set worker.actor.compute_dtype=bf16, or this to adamw"},
      {{"worker.rollout.url=[http://h:1]"},
       "worker.rollout.url",
       "this program's own engine takes none",
       "set worker.rollout.engine to vllm or exec"},
      {{"worker.rollout.engine=exec"},
       "worker.rollout.command",
       "no program is named",
       "set it to the command"},
      {{"worker.rollout.engine=exec", "worker.rollout.command='a \"b'"},
       "worker.rollout.command",
       "quote",
       ""},
      {{"worker.rollout.engine=vllm", "worker.rollout.command=vllm serve {model}"},
       "worker.rollout.command",
       "it has no {port}",
       "such as: vllm serve {model} --port {port}"},
      {{"worker.rollout.engine=vllm", "worker.rollout.url=[localhost:8000]"},
       "worker.rollout.url",
       "localhost:8000 is not the URL of a server",
       "http://127.0.0.1:8000"},
      {{"worker.rollout.engine=vllm", "worker.rollout.url=[http://a:1/v1]"},
       "worker.rollout.url",
       "http://a:1/v1 is not the URL of a server",
       ""},
      {{"worker.rollout.engine=vllm", "worker.rollout.url=[http://a:1, http://a:1]"},
       "worker.rollout.url",
       "http://a:1 is listed twice",
       ""},
      {{"worker.rollout.engine=vllm", "worker.rollout.url=[http://a:1]",
        "worker.rollout.engine_layout=vllm-neuron"},
       "worker.rollout.url",
       "a running vLLM Neuron server cannot load new weights",
       "name the command that starts one with worker.rollout.command"},
      {{"worker.rollout.engine_layout=vllm-neuron"},
       "worker.rollout.engine_layout",
       "this program's own engine takes none",
       "set worker.rollout.engine to vllm or exec"},
      {{"worker.rollout.engine=vllm", "worker.rollout.temperature=2.5"},
       "worker.rollout.temperature",
       "vLLM samples at 0.01 to 2, found 2.5",
       ""},
      {{"worker.rollout.engine=vllm", "worker.rollout.temperature=0.5", "worker.rollout.top_p=0.9"},
       "worker.rollout.temperature",
       "only at temperature 1, found 0.5",
       "set it to 1, or top_p to 1"},
      {{"worker.rollout.engine=vllm", "worker.rollout.max_log_prob_gap=0"},
       "worker.rollout.max_log_prob_gap",
       "0 must be more than 0",
       ""},
      {{"worker.rollout.top_p=0"},
       "worker.rollout.top_p",
       "0 must be more than 0 and at most 1",
       ""},
      {{"worker.rollout.temperature=0.0001"},
       "worker.rollout.temperature",
       "0.0001 must be from 0.001 to 3.4e38",
       ""},
      {{"worker.rollout.temperature=1e39"}, "worker.rollout.temperature", "must be from 0.001", ""},
      {{"worker.rollout.val_override_config.top_p=1e-60"},
       "worker.rollout.val_override_config.top_p",
       "1e-60 must be more than 0 and at most 1",
       ""},
      {{"worker.rollout.val_override_config.temperature=0.0009"},
       "worker.rollout.val_override_config.temperature",
       "0.0009 must be 0 (the most likely token) or from 0.001 to 3.4e38",
       ""},
      {{"worker.actor.micro_batch_size_per_device_for_update=3"},
       "worker.actor.micro_batch_size_per_device_for_update",
       "8 sequences of an update on one data-parallel rank (4 prompts x 4 / 2) are not a multiple "
       "of 3",
       "legal values: 8, 4, 2, 1"},
      {{"worker.actor.fsdp.enable_cpu_offload=true"},
       "worker.actor.fsdp.enable_cpu_offload",
       "an update has 8 sequences on one data-parallel rank and a micro-batch has 2",
       "worker.actor.micro_batch_size_per_device_for_update to 8"},
      {{"worker.rollout.tensor_parallel_size=3"},
       "worker.rollout.tensor_parallel_size",
       "4 rollout cores cannot be divided into groups of 3",
       "legal values: 4, 2, 1"},
      {{"worker.rollout.tensor_parallel_size=8"},
       "worker.rollout.tensor_parallel_size",
       "4 rollout cores, of trainer.cores 4 (run.yaml line 8 column 11), are fewer than one group "
       "of 8",
       "legal values: 4, 2, 1"},
      {{"worker.rollout.max_num_batched_tokens=127"},
       "worker.rollout.max_num_batched_tokens",
       "127 is less than data.max_prompt_length 64 + data.max_response_length 64 = 128",
       "128 or more"},
      {{"worker.rollout.max_model_len=100"}, "worker.rollout.max_model_len", "100 is less", "128"},
      {{"algorithm.kl_type=adaptive", "algorithm.kl_horizon=0"},
       "algorithm.kl_horizon",
       "0 must be more than 0 with kl_type adaptive",
       ""},
      {{"algorithm.kl_type=adaptive", "algorithm.use_kl_loss=true"},
       "algorithm.kl_type",
       "acts on KL in the reward only",
       "set it to fixed"},
      {{"algorithm.kl_penalty=full"}, "algorithm.kl_penalty", "whole vocabulary", "low_var_kl"},
      {{"worker.actor.loss_type=gspo_tokens"},
       "worker.actor.loss_type",
       "\"gspo_tokens\" is not known",
       "did you mean gspo_token?"},
      {{"algorithm.adv_estimator=ppo"},
       "algorithm.adv_estimator",
       "\"ppo\" is not known",
       "known: grpo, grpo_passk"},
      {{"worker.actor.optim.lr_scheduler_type=linear"},
       "worker.actor.optim.lr_scheduler_type",
       "\"linear\" is not known",
       "known: constant, cosine"},
      {{"trainer.logger=[file, csv]"}, "trainer.logger", "\"csv\" is not known", "tensorboard"},
      {{"worker.actor.optim.min_lr_ratio=1.5"},
       "worker.actor.optim.min_lr_ratio",
       "1.5 must be from 0 to 1",
       ""},
      {{"worker.actor.optim.betas=[0.9, 1]"},
       "worker.actor.optim.betas",
       "1 must be at least 0 and less than 1",
       ""},
      {{"worker.rollout.temperature=0"},
       "worker.rollout.temperature",
       "0 must be from 0.001 to 3.4e38",
       ""},
      {{"data.rollout_batch_size=0"}, "data.rollout_batch_size", "0 must be more than 0", ""},
      {{"data.rollout_batch_size=3000000000"},
       "data.rollout_batch_size",
       "3000000000 is over the limit of 2147483647",
       ""},
      {{"data.mini_rollout_batch_size=6"},
       "data.mini_rollout_batch_size",
       "6 prompts cannot be divided over 4 rollout workers",
       "use a multiple of 4"},
      {{"worker.reward.reward_function=null"},
       "worker.reward.reward_function",
       "no reward function is named",
       "math, r1v, dapo, exact, exec:COMMAND"},
      {{"worker.reward.reward_function=maths"},
       "worker.reward.reward_function",
       "\"maths\" is not known",
       "known"},
      {{"worker.reward.reward_function=my/score.py:compute_score"},
       "worker.reward.reward_function",
       "Python functions are not called",
       "exec:python3 score.py"},
      {{"worker.reward.reward_function=dapo",
        "worker.reward.reward_function_kwargs="
        "{max_response_length: 64, overlong_buffer_length: 8}"},
       "worker.reward.reward_function_kwargs",
       "dapo needs the number overlong_penalty_factor",
       ""},
      {{"worker.reward.reward_function_kwargs={format_weight: high}"},
       "worker.reward.reward_function_kwargs",
       "format_weight is a string; rewards take numbers only",
       ""},
      {{"worker.actor.model.override_config={num_hidden_layers: 2}"},
       "worker.actor.model.override_config",
       "{\"num_hidden_layers\": 2} is not supported",
       "set it to {}"},
      {{"trainer.max_skipped_steps=0"}, "trainer.max_skipped_steps", "must be more than 0", ""},
      {{"trainer.peer_timeout=86401"},
       "trainer.peer_timeout",
       "86401 must be from 1 to 86400 (a day)",
       ""},
      {{"worker.reward.reward_function='exec:./missing/score --fast'"},
       "worker.reward.reward_function",
       "there is no file ./missing/score",
       ""},
      {{"algorithm.online_filtering=true", "algorithm.filter_low=1"},
       "algorithm.filter_low",
       "1 must be less than algorithm.filter_high 0.99",
       ""},
      {{"worker.rollout.neuron_override_config.tp_degree=8"},
       "worker.rollout.neuron_override_config.tp_degree",
       "compiled for TP 8, worker.rollout.tensor_parallel_size is 1",
       ""},
      {{"worker.rollout.neuron_override_config.seq_len=127"},
       "worker.rollout.neuron_override_config.seq_len",
       "64 + data.max_response_length 64 = 128 is over the 127 positions",
       ""},
      {{"worker.actor.model.lora.rank=8"},
       "worker.actor.model.lora.rank",
       "8 is not supported: LoRA is not trained here",
       "set it to 0"},
      {{"worker.actor.ulysses_size=2"},
       "worker.actor.ulysses_size",
       "2 is not supported",
       "set it to 1"},
      {{"data.image_dir=pictures"}, "data.image_dir", "\"pictures\" is not supported", "null"},
      {{"worker.hybrid_engine=false"}, "worker.hybrid_engine", "false is not supported", "true"},
  };
  for (const Violation& row : rows) {
    SCOPED_TRACE(row.overrides[0]);
    const ConfigCheck check = Check(row.overrides);
    ASSERT_THAT(Keys(check), ElementsAre(row.key));
    EXPECT_THAT(check.problems[0].message, HasSubstr(row.message));
    EXPECT_THAT(check.problems[0].fix, HasSubstr(row.fix));
    EXPECT_FALSE(check.status().ok());
  }
}

// The critic's batches are checked like the actor's, over the same ranks.
TEST(CheckConfig, GaeChecksTheCritic) {
  const ConfigCheck check = Check({"algorithm.adv_estimator=gae",
                                   "worker.critic.micro_batch_size_per_device_for_experience=3",
                                   "worker.critic.optim.strategy=adamw_bf16"});
  ASSERT_THAT(Keys(check), ElementsAre("worker.critic.global_batch_size",
                                       "worker.critic.micro_batch_size_per_device_for_experience",
                                       "worker.critic.optim.strategy"));
  EXPECT_EQ(check.problems[0].message, "data.rollout_batch_size 8 is not a multiple of 256");
  EXPECT_EQ(check.problems[0].fix, "legal values of worker.critic.global_batch_size: 8, 4, 2");
  EXPECT_THAT(check.problems[1].message, HasSubstr("32 sequences are not a multiple of 3"));
  EXPECT_EQ(check.problems[2].message,
            "adamw_bf16 is for bf16 weights, and worker.actor.compute_dtype is f32");
  const ConfigCheck good = Check(
      {"algorithm.adv_estimator=gae", "worker.rollout.n=1", "worker.critic.global_batch_size=8",
       "worker.critic.micro_batch_size_per_device_for_update=2",
       "worker.critic.micro_batch_size_per_device_for_experience=4", "worker.critic.ppo_epochs=3",
       "worker.actor.micro_batch_size_per_device_for_update=1"});
  EXPECT_THAT(Keys(good), IsEmpty()) << "one response per prompt will do";
  EXPECT_EQ(good.plan.critic_rows_per_update, 4);
  EXPECT_EQ(good.plan.critic_updates_per_step, 3);
  EXPECT_THAT(RunPlanText(good.plan), HasSubstr("3 updates of the critic a step, 4 sequences of "
                                                "each on a data-parallel rank"));
  EXPECT_THAT(good.notes, IsEmpty());
}

TEST(CheckConfig, ACriticWithoutGaeHasNoEffect) {
  const ConfigCheck check = Check({"worker.critic.optim.lr=1e-5", "trainer.critic_warmup=20"});
  EXPECT_THAT(Keys(check), IsEmpty());
  EXPECT_EQ(check.plan.critic_rows_per_update, 0);
  EXPECT_THAT(check.notes, Contains(HasSubstr("worker.critic has no effect: only gae needs a "
                                              "critic, and algorithm.adv_estimator is grpo")));
  EXPECT_THAT(check.notes, Contains(HasSubstr("the actor is not updated before step 20")));
}

TEST(CheckConfig, BatchesThatDoNotDivideOverTheRanks) {
  const ConfigCheck check =
      Check({"trainer.cores=6", "worker.rollout.tensor_parallel_size=6",
             "worker.actor.micro_batch_size_per_device_for_update=1"});  // DP 3
  ASSERT_THAT(Keys(check),
              ElementsAre("data.rollout_batch_size", "worker.actor.global_batch_size"));
  EXPECT_THAT(check.problems[0].message,
              HasSubstr("8 prompts x 4 responses = 32 sequences cannot be divided over 3 "
                        "data-parallel ranks"));
  EXPECT_THAT(check.problems[1].message,
              HasSubstr("4 prompts x 4 responses = 16 sequences cannot be divided over 3"));
  EXPECT_THAT(check.problems[1].fix, HasSubstr("another data.rollout_batch_size would"));
}

TEST(CheckConfig, AllProblemsAreReportedTogetherWithTheirPlaces) {
  const LoadedConfig loaded =
      Load(kGoodConfig, {"worker.actor.global_batch_size=256", "worker.rollout.n=1",
                         "algorithm.kl_penalty=full", "worker.actor.model.lora.rank=4"});
  const ConfigCheck check = CheckConfig(loaded, {.files = false});
  const auto error = ExpectError(check.status(), Errc::kUsage, "problems in the configuration");
  EXPECT_THAT(error->message(), HasSubstr("command line: worker.actor.global_batch_size=256: "
                                          "worker.actor.global_batch_size: "));
  EXPECT_THAT(Keys(check), Contains("worker.rollout.n"));
  EXPECT_THAT(Keys(check), Contains("algorithm.kl_penalty"));
  EXPECT_THAT(Keys(check), Contains("worker.actor.model.lora.rank"));
}

TEST(CheckConfig, FilesMustBeThere) {
  const testing_util::TempFolder folder;
  testing_util::WriteText(folder / "file", "x");
  const auto check = [&](const std::string& text) {
    return CheckConfig(
        Load(kGoodConfig, {"worker.actor.model.model_path=" + folder.path(),
                           "data.train_files=" + (folder / "file") + "@train", text}));
  };
  EXPECT_THAT(check("data.format_prompt=" + (folder / "file")).problems, IsEmpty());
  const struct {
    std::string text;
    std::string message;
  } rows[] = {
      {"data.format_prompt=" + (folder / "typo"), "there is no file " + (folder / "typo")},
      {"data.format_prompt=" + folder.path(), folder.path() + " is not a file"},
      {"data.override_chat_template=" + (folder / "typo"), "there is no file"},
      {"trainer.load_checkpoint_path=" + (folder / "global_step_5"), "there is no folder"},
      {"worker.rollout.model_path=" + (folder / "file"), (folder / "file") + " is not a folder"},
      {"worker.actor.model.tokenizer_path=" + (folder / "t"), "there is no folder"},
      {"worker.actor.model.model_path=Qwen/Qwen3-4B",
       "Qwen/Qwen3-4B: no such file or folder, and it is not in the hub's cache"},
      {"worker.actor.model.model_path=null", "no model is named"},
      {"data.train_files=''", "no data is named"},
      {"data.train_files=hiyouga/math12k@train",
       "hiyouga/math12k: no such file or folder, and it is not in the hub's cache"},
      {"data.val_files=" + (folder / "typo"), "there is no file or folder " + (folder / "typo")},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.text);
    const ConfigCheck result = check(row.text);
    ASSERT_EQ(result.problems.size(), 1u);
    EXPECT_EQ(result.problems[0].key, row.text.substr(0, row.text.find('=')));
    EXPECT_THAT(result.problems[0].message, HasSubstr(row.message));
  }
}

TEST(CheckConfig, ADayOfTheCalendar) {
  EXPECT_EQ(MidnightOf("1970-01-01"), 0);
  EXPECT_EQ(MidnightOf("2026-11-23"), 1795392000);
  EXPECT_EQ(MidnightOf("2024-02-29"), 1709164800);
  for (const char* bad : {"2025-02-29", "2026-13-01", "2026-1-01", "26-01-01", "1969-12-31", "",
                          "today", "2026-11-23T"})
    EXPECT_EQ(MidnightOf(bad), std::nullopt) << bad;
}

TEST(CheckConfig, NotesSayWhatHasNoEffect) {
  const struct {
    std::vector<std::string> overrides;
    const char* note;
  } rows[] = {
      {{"worker.actor.padding_free=false"}, "worker.actor.padding_free = false has no effect"},
      {{"worker.rollout.gpu_memory_utilization=0.8"}, "has no effect"},
      {{"trainer.logger=[file, wandb]"},
       "trainer.logger wandb is not built in; python -m nxdkit.wandb RUN imports"},
      {{"trainer.logger=[mlflow]"}, "log to file and tensorboard, and import those files"},
      {{"trainer.save_model_only=true"}, "cannot be resumed"},
      {{"worker.actor.loss_type=cispo", "worker.actor.clip_ratio_low=0"}, "cispo"},
      {{"worker.actor.optim.strategy=adamw_bf16"}, "never lets v decay"},
      {{"worker.actor.optim.strategy=adamw_bf16"}, "decays no weight"},
      {{"worker.actor.optim.lr_warmup_ratio=0.1"}, "learning rate 0"},
      {{"algorithm.use_kl_loss=true"}, "no gradient in expectation"},
      {{"worker.reward.reward_function=./examples/reward_function/r1v.py:compute_score"},
       "the built-in rule r1v is used"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.overrides[0]);
    const ConfigCheck check = Check(row.overrides);
    EXPECT_THAT(Keys(check), IsEmpty());
    EXPECT_THAT(check.notes, Contains(HasSubstr(row.note)));
  }
  EXPECT_THAT(Check({"worker.actor.padding_free=true"}).notes, IsEmpty()) << "it is the default";
}

TEST(ResolveReward, KnowsRulesCommandsAndExamples) {
  const struct {
    const char* text;
    RewardKind kind;
    const char* name;
  } rows[] = {{"math", RewardKind::kBuiltIn, "math"},
              {"exact", RewardKind::kBuiltIn, "exact"},
              {"exec:python3 a.py:b", RewardKind::kCommand, "python3 a.py:b"},
              {"x/reward_function/dapo.py:compute_score", RewardKind::kBuiltIn, "dapo"},
              {"x/reward_function/dapo.py:main", RewardKind::kPython, ""},
              {"mine/math.py:compute_score", RewardKind::kPython, ""},
              {"mine/math.py", RewardKind::kPython, ""},
              {"", RewardKind::kUnknown, ""},
              {"Math", RewardKind::kUnknown, ""}};
  for (const auto& row : rows) {
    const RewardChoice choice = ResolveReward(row.text);
    EXPECT_EQ(choice.kind, row.kind) << row.text;
    if (*row.name == 0) continue;
    EXPECT_EQ(choice.name, row.name);
  }
}

TEST(CheckModel, DividesHeadsAndVocabulary) {
  const ModelFacts qwen3_4b = {32, 8, 151936, 9728, 40960};
  const auto problems = [&](const ModelFacts& model, const char* tp) {
    return CheckModel(Load("", {std::string("worker.actor.tensor_parallel_size=") + tp,
                                "worker.rollout.tensor_parallel_size=1"}),
                      model);
  };
  EXPECT_THAT(problems(qwen3_4b, "8"), IsEmpty());
  EXPECT_THAT(problems(qwen3_4b, "16"), IsEmpty()) << "key heads are shared";
  const std::vector<ConfigProblem> three = problems(qwen3_4b, "3");
  ASSERT_EQ(three.size(), 4u);
  EXPECT_EQ(three[0].message, "32 attention heads cannot be divided over 3 ranks");
  EXPECT_EQ(three[0].fix, "legal values: 32, 16, 8, 4, 2, 1");
  EXPECT_EQ(three[1].message, "151936 rows of the vocabulary cannot be divided over 3 ranks");
  EXPECT_EQ(three[3].message, "8 key heads and 3 ranks: neither is a multiple of the other");
  const std::vector<ConfigProblem> shorter = problems({32, 8, 151936, 9728, 1000}, "1");
  ASSERT_EQ(shorter.size(), 1u);
  EXPECT_THAT(shorter[0].message, HasSubstr("512 + data.max_response_length 512 = 1024 is over "
                                            "the model's 1000 positions"));
  EXPECT_EQ(problems({0, 0, 0, 0, 0}, "1").size(), 1u);
}

TEST(CheckModel, ACriticIsCutLikeTheActor) {
  const LoadedConfig loaded =
      Load("", {"worker.actor.tensor_parallel_size=4", "worker.rollout.tensor_parallel_size=3"});
  EXPECT_THAT(CheckCriticModel(loaded, {16, 8, 151936, 3072, 40960}), IsEmpty());
  const std::vector<ConfigProblem> found = CheckCriticModel(loaded, {14, 2, 151936, 4864, 1000});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].key, "worker.actor.tensor_parallel_size");
  EXPECT_EQ(found[0].message, "14 attention heads of the critic cannot be divided over 4 ranks");
  EXPECT_THAT(found[1].message, HasSubstr("is over the critic's 1000 positions"));
  ASSERT_EQ(CheckCriticModel(loaded, {}).size(), 1u);
  EXPECT_EQ(CheckCriticModel(loaded, {})[0].key, "worker.critic.model.model_path");
}

}  // namespace
}  // namespace nxdkit::trainer::test
