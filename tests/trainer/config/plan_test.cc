#include "trainer/config/plan.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/lib/temp_folder.h"
#include "tests/trainer/config/config_workshop.h"
#include "trainer/config/key_table.h"
#include "trainer/config/print.h"

namespace nxdkit::trainer::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::ExpectError;

// Only the keys that the Trainium port's own config is known to set.
const std::string kPortKeys = R"(
data:
  train_files: hiyouga/math12k@train
  max_prompt_length: 2048
  max_response_length: 1024
  rollout_batch_size: 64
worker:
  actor:
    tensor_parallel_size: 8
    model:
      model_path: /data/models/qwen3_4b_base
      enable_gradient_checkpointing: true
    optim:
      lr: 1.0e-5
      strategy: adamw_bf16
  rollout:
    model_path: /data/models/qwen3_4b_neuron_tp8_bs64
    tensor_parallel_size: 8
    n: 4
    neuron_override_config:
      tp_degree: 8
      batch_size: 64
      seq_len: 4096
      on_device_sampling: true
trainer:
  max_steps: 50
  separate_rollout_workers: true
  training_core_ratio: 0.5
  save_checkpoint_path: /data/models/qwen3_4b_trainium_v2
)";

TEST(Trainium, ThePortsConfigLoadsAsItIs) {
  const LoadedConfig loaded = Load(kPortKeys);
  EXPECT_EQ(loaded.config.worker.actor.tensor_parallel_size, 8);
  EXPECT_EQ(loaded.config.worker.actor.optim.strategy, "adamw_bf16");
  EXPECT_EQ(loaded.config.worker.rollout.neuron_override_config.on_device_sampling, true);
  EXPECT_EQ(loaded.config.trainer.save_checkpoint_path, "/data/models/qwen3_4b_trainium_v2");
}

TEST(Trainium, Uses32CoresAsTheSeedDoes) {
  const LoadedConfig loaded =
      Load(kPortKeys, {"trainer.n_gpus_per_node=32", "worker.actor.global_batch_size=64",
                       "worker.reward.reward_function=math"});
  const ConfigCheck check = CheckConfig(loaded, {.files = false});
  EXPECT_THAT(Keys(check), IsEmpty());
  const RunPlan& plan = check.plan;
  EXPECT_EQ(plan.train_cores, 16);
  EXPECT_EQ(plan.rollout_cores, 16);
  EXPECT_EQ(plan.data_parallel, 2);
  EXPECT_EQ(plan.rollout_workers, 2);
  EXPECT_EQ(plan.sequences, 256);
  EXPECT_EQ(plan.sequences_per_worker, 128);
  EXPECT_EQ(plan.waves, 2);
  EXPECT_EQ(plan.rows_per_update, 128);
  EXPECT_EQ(RunPlanText(plan),
            "32 cores: 16 for training (TP 8 x DP 2), 16 for rollout (2 workers x TP 8)\n"
            "64 prompts x 4 responses = 256 sequences a step, 128 per rollout worker in 2 waves\n"
            "1 update a step, 128 sequences of each on a data-parallel rank\n");
}

TEST(Machines, CoresAreGivenOutMachineByMachine) {
  const std::vector<std::string> words = {"trainer.nnodes=2",
                                          "trainer.cores=4",
                                          "trainer.separate_rollout_workers=false",
                                          "worker.actor.tensor_parallel_size=2",
                                          "worker.rollout.tensor_parallel_size=1",
                                          "worker.rollout.neuron_override_config.tp_degree=1",
                                          "worker.actor.global_batch_size=64",
                                          "worker.reward.reward_function=math"};
  const ConfigCheck check = CheckConfig(Load(kPortKeys, words), {.files = false});
  EXPECT_THAT(Keys(check), IsEmpty());
  EXPECT_EQ(check.plan.cores, 8);
  EXPECT_EQ(check.plan.data_parallel, 4);
  EXPECT_EQ(check.plan.rollout_cores, 8);
  // The same cores do both in turn: each machine has a rollout worker with all of them.
  EXPECT_THAT(RunPlanText(check.plan),
              HasSubstr("machine 0: process 0, 4 threads, TP ranks 0 to 1 of DP ranks 0 to 1; "
                        "rollout worker 0; the loop and the rewards\n"
                        "machine 1: process 1, 4 threads, TP ranks 0 to 1 of DP ranks 2 to 3; "
                        "rollout worker 1\n"));
  std::vector<std::string> across = words;
  across[3] = "worker.actor.tensor_parallel_size=8";
  const ConfigCheck spread = CheckConfig(Load(kPortKeys, across), {.files = false});
  EXPECT_THAT(Keys(spread), IsEmpty());
  EXPECT_THAT(spread.notes, ::testing::Contains(HasSubstr(
                                "worker.actor.tensor_parallel_size = 8: a group is spread over "
                                "machines of 4 cores")));
  EXPECT_THAT(RunPlanText(spread.plan), HasSubstr("machine 1: process 1, 4 threads, ranks 4 to 7 "
                                                  "of the mesh (the TP rank changes fastest)"));
  std::vector<std::string> apart = words;
  apart[2] = "trainer.separate_rollout_workers=true";
  const ConfigCheck half = CheckConfig(Load(kPortKeys, apart), {.files = false});
  EXPECT_THAT(Keys(half), IsEmpty());
  EXPECT_THAT(half.plan.ranks_of_machine, ElementsAre(4, 0));
  EXPECT_THAT(half.plan.machine_of_worker, ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(RunPlanText(half.plan),
              HasSubstr("machine 0: process 0, 4 threads, TP ranks 0 to 1 of DP ranks 0 to 1; the "
                        "loop and the rewards\n"
                        "machine 1: process 1; rollout workers 0 to 3\n"));
  // A machine does both.
  apart.push_back("trainer.training_core_ratio=0.25");
  const ConfigCheck quarter = CheckConfig(Load(kPortKeys, apart), {.files = false});
  EXPECT_THAT(quarter.plan.ranks_of_machine, ElementsAre(2, 0));
  EXPECT_THAT(quarter.plan.machine_of_worker, ElementsAre(0, 0, 1, 1, 1, 1));
}

// Servers of another program are distributed over the machines.
TEST(Machines, ServersOfEachAreNamed) {
  const ConfigCheck check = CheckConfig(
      Load(kPortKeys,
           {"trainer.nnodes=2", "trainer.cores=2", "trainer.separate_rollout_workers=false",
            "worker.actor.tensor_parallel_size=1", "worker.rollout.tensor_parallel_size=1",
            "worker.rollout.neuron_override_config.tp_degree=1", "worker.rollout.engine=vllm",
            "worker.rollout.servers=4", "worker.actor.global_batch_size=64",
            "worker.reward.reward_function=math"}),
      {.files = false});
  EXPECT_THAT(RunPlanText(check.plan), HasSubstr("; rollout workers 0, 2; the loop"));
  EXPECT_THAT(RunPlanText(check.plan), HasSubstr("; rollout workers 1, 3\n"));
}

// Cores 2 and 3 of three are used for rollout, and so is the first one of the next machine.
TEST(Machines, ARolloutGroupOnTwoOfThemIsRefused) {
  const ConfigCheck check = CheckConfig(
      Load(kPortKeys,
           {"trainer.nnodes=2", "trainer.cores=3", "trainer.training_core_ratio=0.34",
            "worker.actor.tensor_parallel_size=1", "worker.rollout.tensor_parallel_size=2",
            "worker.rollout.neuron_override_config.tp_degree=2",
            "worker.actor.global_batch_size=64", "worker.reward.reward_function=math"}),
      {.files = false});
  ASSERT_THAT(Keys(check), ElementsAre("worker.rollout.tensor_parallel_size"));
  EXPECT_THAT(check.problems[0].message,
              HasSubstr("a rollout worker with TP 2 does not fit within one of 2 "
                        "machines of 3 cores"));
}

// Neither default of global_batch_size (256, or 128 of the example) divides 64 prompts.
TEST(Trainium, GlobalBatchSizeMustBeGiven) {
  for (const char* batch : {"256", "128"}) {
    const ConfigCheck check =
        CheckConfig(Load(kPortKeys, {"trainer.cores=32", "worker.reward.reward_function=math",
                                     std::string("worker.actor.global_batch_size=") + batch}),
                    {.files = false});
    ASSERT_THAT(Keys(check), ElementsAre("worker.actor.global_batch_size"));
    EXPECT_EQ(check.problems[0].message,
              std::string("data.rollout_batch_size 64 is not a multiple of ") + batch);
    EXPECT_EQ(check.problems[0].fix,
              "legal values of worker.actor.global_batch_size: 64, 32, 16, 8, 4, 2");
  }
}

TEST(Trainium, CoresThatDoNotDivideShowLegalRatios) {
  const auto check = [](const char* ratio) {
    return CheckConfig(Load(kPortKeys, {"trainer.cores=32", "worker.actor.global_batch_size=64",
                                        "worker.reward.reward_function=math",
                                        std::string("trainer.training_core_ratio=") + ratio}),
                       {.files = false});
  };
  // TP 8 and three engines: the cores fit, but 64 prompts cannot be divided into three equal parts.
  EXPECT_THAT(Keys(check("0.25")), ElementsAre("data.rollout_batch_size"));
  const ConfigCheck third = check("0.6");  // floor(19.2) = 19
  ASSERT_THAT(Keys(third), ElementsAre("worker.actor.tensor_parallel_size",
                                       "worker.rollout.tensor_parallel_size"));
  EXPECT_EQ(third.problems[0].message, "19 training cores cannot be divided into groups of 8");
  EXPECT_EQ(third.problems[0].fix, "legal values of trainer.training_core_ratio: 0.25, 0.5, 0.75");
  EXPECT_EQ(third.problems[1].message, "13 rollout cores cannot be divided into groups of 8");
  const ConfigCheck none = check("0.1");  // 3 cores
  EXPECT_EQ(
      none.problems[0].message,
      "3 training cores, of trainer.cores 32 (command line: trainer.cores=32), are fewer than "
      "one group of 8");
  EXPECT_THAT(Keys(check("1")), ElementsAre("trainer.training_core_ratio"));
}

// The port's config unchanged, on an unnamed machine: 8 is EasyR1's default number of GPUs.
TEST(Trainium, TooFewCoresSayWhereTheirNumberIsFrom) {
  const ConfigCheck check = CheckConfig(
      Load(kPortKeys, {"worker.actor.global_batch_size=64", "worker.reward.reward_function=math"}),
      {.files = false});
  ASSERT_THAT(Keys(check), ::testing::Contains("worker.actor.tensor_parallel_size"));
  EXPECT_EQ(check.problems[0].code, Errc::kUsage);
  EXPECT_EQ(check.problems[0].message,
            "4 training cores, of trainer.n_gpus_per_node 8 (default), are fewer than one group "
            "of 8");
  EXPECT_THAT(check.problems[0].fix,
              HasSubstr("set trainer.cores to what the machine has, or name it with --instance"));
  const ConfigCheck several = CheckConfig(
      Load(kPortKeys, {"worker.actor.global_batch_size=64", "worker.reward.reward_function=math",
                       "trainer.cores=2", "trainer.nnodes=2"}),
      {.files = false});
  const auto few = std::ranges::find_if(several.problems, [](const ConfigProblem& problem) {
    return problem.key == "worker.actor.tensor_parallel_size";
  });
  ASSERT_NE(few, several.problems.end());
  EXPECT_THAT(few->message,
              HasSubstr("of trainer.cores 2 (command line: trainer.cores=2) on 2 machines, are"));
  EXPECT_THAT(few->fix, ::testing::Not(HasSubstr("--instance"))) << "it would change nothing";
}

TEST(RunPlan, ARatioThatIsNoBinaryFractionCountsWholeCores) {
  const Config config = Load("", {"trainer.cores=10", "trainer.separate_rollout_workers=true",
                                  "trainer.training_core_ratio=0.7"})
                            .config;
  EXPECT_EQ(MakeRunPlan(config).train_cores, 7);
  // As LegalRatios prints a third.
  const Config third = Load("", {"trainer.cores=24", "trainer.separate_rollout_workers=true",
                                 "trainer.training_core_ratio=0.333333"})
                           .config;
  EXPECT_EQ(MakeRunPlan(third).train_cores, 8);
}

TEST(RunPlan, OfAnyConfigDividesByNothing) {
  Config config;
  for (int64_t* number :
       {&config.worker.actor.tensor_parallel_size, &config.worker.rollout.tensor_parallel_size,
        &config.worker.actor.global_batch_size,
        &config.worker.actor.micro_batch_size_per_device_for_update})
    *number = 0;
  EXPECT_EQ(MakeRunPlan(config).data_parallel, 0);
}

TEST(TrainingSteps, FollowEpochsAndSteps) {
  const struct {
    std::vector<std::string> overrides;
    int64_t rows;
    int64_t steps;
  } rows[] = {
      {{"data.rollout_batch_size=64"}, 12000, 187 * 15},
      {{"data.rollout_batch_size=64", "trainer.max_steps=50"}, 12000, 50},
      {{"data.rollout_batch_size=64", "trainer.total_epochs=1"}, 64, 1},
      {{"data.rollout_batch_size=64", "data.mini_rollout_batch_size=24", "trainer.total_epochs=2"},
       250,
       3 * 2},  // 10 batches of 24 = 240 prompts
  };
  for (const auto& row : rows) {
    const Result<int64_t> steps = TrainingSteps(Load("", row.overrides).config, row.rows, 1);
    ASSERT_TRUE(steps.ok()) << steps.error().ToString();
    EXPECT_EQ(*steps, row.steps);
  }
}

// Arithmetic on numbers of this size neither overflows nor searches forever.
TEST(RunPlan, OfTheLargestNumbers) {
  const std::string most = "2147483647";
  const LoadedConfig loaded =
      Load(kPortKeys, {"trainer.n_gpus_per_node=" + most, "worker.actor.tensor_parallel_size=2",
                       "worker.rollout.tensor_parallel_size=2", "data.rollout_batch_size=" + most,
                       "worker.rollout.n=" + most, "worker.actor.global_batch_size=" + most,
                       "trainer.total_epochs=" + most, "worker.actor.ppo_epochs=" + most,
                       "trainer.max_steps=null"});
  EXPECT_FALSE(CheckConfig(loaded, {.files = false}).problems.empty());
  const Config small =
      Load("", {"data.rollout_batch_size=1", "trainer.total_epochs=" + most}).config;
  EXPECT_EQ(*TrainingSteps(small, int64_t{1} << 40, 1), INT64_MAX);
}

TEST(TrainingSteps, NeedOneBatchOfEach) {
  const Config config = Load("", {"data.rollout_batch_size=64"}).config;
  const auto few = ExpectError(TrainingSteps(config, 63, 1), Errc::kUsage,
                               "63 training rows are less than one batch of 64");
  EXPECT_EQ(few->member(), "data.train_files");
  EXPECT_EQ(ExpectError(TrainingSteps(config, 64, 0), Errc::kUsage, "no validation rows")->member(),
            "data.val_files");
  const Config none =
      Load("", {"data.rollout_batch_size=64", "trainer.val_before_train=false"}).config;
  EXPECT_TRUE(TrainingSteps(none, 64, 0).ok());
}

TEST(WarmupSteps, StepsWinOverTheRatio) {
  OptimConfig optim;
  optim.lr_warmup_ratio = 0.1;
  EXPECT_EQ(WarmupSteps(optim, 55), 5);
  optim.lr_warmup_steps = 0;
  EXPECT_EQ(WarmupSteps(optim, 55), 0);
}

std::string Shipped(const std::string& name) {
  return testing_util::ReadText(std::string(NXDKIT_SOURCE_DIR) + "/trainer/" + name);
}

TEST(Shipped, EveryConfigKeepsEveryRule) {
  size_t count = 0;
  const std::string folder = std::string(NXDKIT_SOURCE_DIR) + "/trainer/configs";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".yaml") continue;
    SCOPED_TRACE(file.path().filename().string());
    ++count;
    EXPECT_THAT(Keys(CheckConfig(Load(testing_util::ReadText(file.path())), {.files = false})),
                IsEmpty());
  }
  EXPECT_GE(count, 2u);
  const RunPlan plan = MakeRunPlan(Load(Shipped("configs/config_trainium.yaml")).config);
  EXPECT_EQ(plan.data_parallel, 2);
  EXPECT_EQ(plan.rollout_workers, 2);
}

// NXDKIT_UPDATE_DOCS=1 rewrites the table.
TEST(Docs, ReadmeHasTheTableOfKeys) {
  const std::string begin = "<!-- keys: written by NXDKIT_UPDATE_DOCS=1 test_trainer_config -->\n";
  const std::string end = "<!-- end of keys -->\n";
  std::string text = Shipped("config/README.md");
  const size_t first = text.find(begin);
  const size_t last = text.find(end);
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(last, std::string::npos);
  const std::string table = ConfigKeyTable();
  const std::string found = text.substr(first + begin.size(), last - first - begin.size());
  if (std::getenv("NXDKIT_UPDATE_DOCS") != nullptr && found != table)
    testing_util::WriteText(std::string(NXDKIT_SOURCE_DIR) + "/trainer/config/README.md",
                            text.substr(0, first + begin.size()) + table + text.substr(last));
  EXPECT_EQ(found, table);
}

}  // namespace
}  // namespace nxdkit::trainer::test
