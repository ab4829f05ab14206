// grpo-train as a user runs it: the arithmetic example in small, stopped, killed and resumed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "formats/torch/archive.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/temp_folder.h"
#include "tests/tools/grpo_workshop.h"
#include "tests/tools/kill.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(GrpoTrain, TrainsAndReports) {
  const ProcessResult result =
      Train("run", {"trainer.max_steps=4", "trainer.val_freq=2", "trainer.save_freq=2"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const Json json = JsonOf(result);
  EXPECT_EQ(json["last_step"], 4);
  EXPECT_TRUE(json["metrics"].contains("actor/pg_loss"));
  EXPECT_LT(json["metrics"]["rollout/log_prob_gap_max"].get<double>(), 1e-3);
  EXPECT_EQ(Steps("run").size(), 4u);
  EXPECT_THAT(ReadFile(workshop_ / "run/weight_syncs.jsonl"),
              HasSubstr("{\"step\": 4, \"serial\": "));
  const std::string actor = workshop_ / "run/global_step_4/actor";
  const ProcessResult verified = RunProcess({Workshop::Tool("ckpt-verify"), actor});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  const ProcessResult digest = RunProcess({Workshop::Tool("ckpt-digest"), actor});
  EXPECT_EQ(digest.exit_code, 0) << digest.err;
  const ProcessResult equal =
      RunProcess({Workshop::Tool("ckpt-diff"), actor, actor + "/huggingface", "--rtol", "0.01"});
  EXPECT_EQ(equal.exit_code, 0) << equal.out << equal.err;
  // Converts to PyTorch, with the optimizer and the steps of the run.
  const ProcessResult there =
      Workshop::Convert("--from nxd --to dcp --verify --json", actor, workshop_ / "dcp");
  EXPECT_EQ(there.exit_code, 0) << there.err;
  EXPECT_EQ(
      RunProcess({Workshop::Tool("ckpt-diff"), "--optimizer", actor, workshop_ / "dcp"}).exit_code,
      0);
  EXPECT_EQ(there.err, "");
  EXPECT_THAT(there.out, HasSubstr("train_state.ntokens_seen is not known"));
  const ProcessResult report =
      RunProcess({Workshop::Tool("grpo-train"), "report", workshop_ / "run"});
  EXPECT_EQ(report.exit_code, 0) << report.err;
  EXPECT_THAT(ReadFile(workshop_ / "run/report.html"), HasSubstr("<svg"));
}

TEST_F(GrpoTrain, SaysWhatIsWrongWithAConfiguration) {
  const auto refused = [&](const Words& words, int exit_code, const std::string& message) {
    const ProcessResult result = Train("run", words);
    EXPECT_EQ(result.exit_code, exit_code) << result.out;
    EXPECT_THAT(result.out, HasSubstr(message));
  };
  refused({"trainer.max_step=4"}, 2, "trainer.max_steps");
  refused({"worker.actor.global_batch_size=33"}, 2, "worker.actor.global_batch_size");
  refused({"worker.actor.tensor_parallel_size=3"}, 2, "worker.actor.tensor_parallel_size");
  refused({"data.train_files=nowhere"}, 3, "nowhere");
  refused({"worker.rollout.neuron_override_config.tp_degree=4"}, 2, "tp_degree");
  EXPECT_FALSE(fs::exists(workshop_ / "run"));
}

// Faults found before the run loads weights, without a trace.
TEST_F(GrpoTrain, EachProblemOfAConfigurationHasALine) {
  std::vector<std::string> words = {Workshop::Tool("grpo-train"), "worker.actor.lr=1",
                                    "data.shufle=true"};
  const ProcessResult result = RunProcess(words);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("grpo-train: error: 2 problems in the configuration:\n  [1] "));
  EXPECT_THAT(result.err, HasSubstr("\n  [2] command line: data.shufle=true: data.shufle: "));
}

TEST_F(GrpoTrain, ADryRunReadsTheDataAndTheModel) {
  const ProcessResult good = Train("run", {"--dry-run"});
  EXPECT_EQ(good.exit_code, 0) << good.out;
  EXPECT_THAT(good.err, HasSubstr("55 prompts, the longest of 4 tokens"));
  const std::string lacking = workshop_ / "lacking";  // without its last layer
  fs::copy(workshop_ / "arithmetic/model", lacking);
  std::string config = testing_util::ReadText(lacking + "/config.json");
  const std::string layers = "\"num_hidden_layers\": ";
  ASSERT_NE(config.find(layers + "2"), std::string::npos) << config;
  testing_util::WriteText(lacking + "/config.json",
                          config.replace(config.find(layers), layers.size() + 1, layers + "3"));
  const struct {
    std::string word;
    int exit_code;
    const char* message;
  } rows[] = {
      {"data.train_files=" + workshop_.Write("empty.jsonl", ""), 3, "empty.jsonl"},
      {"data.prompt_key=question", 3, "question"},
      {"data.rollout_batch_size=64", 2, "55 training rows are less than one batch of 64"},
      {"worker.actor.model.model_path=" + (workshop_ / "arithmetic/data"), 4, "arithmetic/data"},
      {"worker.reward.reward_function=exec:no-such-program-of-mine", 3, "no-such-program-of-mine"},
      {"worker.actor.model.model_path=" + lacking, 3, "the parameter is stored nowhere"},
      {"trainer.save_checkpoint_path=s3://bucket/run", 4, "s3://bucket/run is a URL"},
      {"actor_rollout_ref.model.path=m", 4, "this is a configuration of verl"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.word);
    Words words = {"--dry-run", row.word};
    if (row.exit_code == 2) words.push_back("worker.actor.global_batch_size=64");
    const ProcessResult result = Train("run", words);
    EXPECT_EQ(result.exit_code, row.exit_code) << result.out;
    EXPECT_THAT(result.out, HasSubstr(row.message));
  }
  EXPECT_FALSE(fs::exists(workshop_ / "run"));
}

// One bit of one element, in a record that nothing else covers.
TEST_F(GrpoTrain, ADamagedCheckpointIsNotGoneOnFrom) {
  ASSERT_EQ(Train("run", {"trainer.max_steps=4", "trainer.save_freq=2"}).exit_code, 0);
  const std::string file =
      workshop_ / "run/global_step_4/actor/model/dp_rank_00_tp_rank_00_pp_rank_00.pt";
  const Result<torch::Archive> archive = torch::ReadArchive(file);
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  testing_util::FlipFile(file, archive->tensors.front().storage->file_offset() + 5);
  const ProcessResult refused = Train("run", {"trainer.max_steps=6"});
  EXPECT_EQ(refused.exit_code, 3) << refused.out;
  const Json error = JsonOf(refused)["error"];
  EXPECT_EQ(error["file"], file);
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("the data has CRC-32"));
  const std::string earlier = "trainer.load_checkpoint_path=" + (workshop_ / "run/global_step_2");
  EXPECT_THAT(error["hint"].get<std::string>(), HasSubstr(earlier));
  const ProcessResult rest = Train("run", {"trainer.max_steps=6", earlier});
  EXPECT_EQ(rest.exit_code, 0) << rest.out;
  EXPECT_EQ(JsonOf(rest)["first_step"], 2);
}

TEST_F(GrpoTrain, ARunIsNotBegunOverAnother) {
  ASSERT_EQ(Train("run", {"trainer.max_steps=2"}).exit_code, 0);
  const ProcessResult refused =
      Train("run", {"trainer.max_steps=4", "trainer.find_last_checkpoint=false"});
  EXPECT_EQ(refused.exit_code, 2) << refused.out;
  EXPECT_THAT(refused.out, HasSubstr("the folder holds another run, with a checkpoint of step 2"));
  EXPECT_EQ(Steps("run").size(), 2u);
}

TEST_F(GrpoTrain, RewardsCanBeAProgram) {
  workshop_.Write("reward.sh",
                  "while read -r line; do echo '{\"overall\": 0.5, \"mine\": 2}'; done\n");
  const ProcessResult result =
      Train("run", {"trainer.max_steps=1",
                    "worker.reward.reward_function=exec:bash " + (workshop_ / "reward.sh")});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(JsonOf(result)["metrics"]["reward/mine"], 2);
  EXPECT_EQ(JsonOf(result)["metrics"]["actor/grad_norm"], 0);  // all equal: nothing to learn
}

TEST_F(GrpoTrain, AFaultOfTheRewardIsSaidWithWhatItWasAsked) {
  const struct {
    const char* body;
    int exit_code;
    const char* message;
    const char* hint;
  } rows[] = {
      {"while read -r l; do echo '{\"overall\": NaN}'; done", 3, "its overall is nan",
       "The sample was: prompt \""},
      {"while read -r l; do echo oops; done", 3, "its answer is not JSON",
       "The sample was: prompt"},
      {"read -r l; echo 'no such module' >&2; exit 3", 5, "no such module",
       "fix worker.reward.reward_function; the same command continues from the last checkpoint"},
      {"sleep 100", 6, "within 1 seconds", "raise timeout_s"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.body);
    const ProcessResult result =
        Train("run", {"worker.reward.reward_function=exec:bash " +
                          workshop_.Write("reward.sh", std::string(row.body) + "\n"),
                      fmt::format("worker.reward.reward_function_kwargs={{timeout_s: {}}}",
                                  row.exit_code == 6 ? 1 : 300)});
    EXPECT_EQ(result.exit_code, row.exit_code) << result.out;
    const Json error = JsonOf(result)["error"];
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(row.message));
    EXPECT_THAT(error["hint"].get<std::string>(), HasSubstr(row.hint));
  }
}

// Killed at any moment after a checkpoint; then the same command again.
TEST_F(GrpoTrain, GoesOnAfterKillMinus9AsIfNothingHadBeen) {
  const Words words = {"trainer.max_steps=24", "trainer.save_freq=3", "trainer.save_limit=2"};
  ASSERT_EQ(Train("whole", words).exit_code, 0);
  for (const char* seen : {"killed/global_step_3", "killed/global_step_12"}) {
    const pid_t child = StartProcess(Command("killed", words));
    ASSERT_TRUE(WaitFor(workshop_ / seen)) << seen;
    ::kill(child, SIGKILL);
    EXPECT_EQ(WaitProcess(child), 128 + SIGKILL);
  }
  const ProcessResult rest = Train("killed", words);
  ASSERT_EQ(rest.exit_code, 0) << rest.out;
  EXPECT_GT(JsonOf(rest)["first_step"].get<int64_t>(), 0);
  const std::map<int64_t, Json> whole = Steps("whole");
  EXPECT_EQ(whole.size(), 24u);
  EXPECT_EQ(Steps("killed"), whole);
  const auto digest = [&](const std::string& run) {
    return RunProcess({Workshop::Tool("ckpt-digest"), workshop_ / (run + "/global_step_24/actor"),
                       "--json"})
        .out;
  };
  const Json a = Json::parse(digest("whole"));
  const Json b = Json::parse(digest("killed"));
  EXPECT_EQ(a["digest"], b["digest"]);
}

TEST_F(GrpoTrain, ARunBelongsToOneProcess) {
  const pid_t child =
      StartProcess(Command("run", {"trainer.max_steps=5000", "trainer.save_freq=2"}));
  ASSERT_TRUE(WaitFor(workshop_ / "run/global_step_2"));
  const ProcessResult second = Train("run", {"trainer.max_steps=4"});
  EXPECT_EQ(second.exit_code, 5) << second.out;
  EXPECT_THAT(second.out, HasSubstr("another process trains in this folder"));
  ::kill(child, SIGKILL);
  WaitProcess(child);
}

TEST_F(GrpoTrain, ABundleThatIsTooShortIsRefused) {
  const ProcessResult made = RunProcess({Workshop::Tool("neuron-export"), "--target", "cpu", "--tp",
                                         "2", "--bs", "64", "--seq", "6", "--dtype", "f32",
                                         workshop_ / "arithmetic/model", workshop_ / "short"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const ProcessResult result =
      Train("run", {"trainer.max_steps=1", "worker.rollout.model_path=" + (workshop_ / "short"),
                    "worker.rollout.neuron_override_config.seq_len=null"});
  EXPECT_EQ(result.exit_code, 2) << result.out;
  EXPECT_THAT(result.out, HasSubstr("= 7 is over the 6 positions of the engine"));
}

// Found before anything is loaded: the engine would need a terabyte.
TEST_F(GrpoTrain, ARunThatDoesNotFitIntoMemoryIsRefused) {
  const Words words = {"trainer.max_steps=1", "data.max_response_length=60",
                       "worker.rollout.neuron_override_config.seq_len=64",
                       "worker.rollout.neuron_override_config.batch_size=100000000"};
  const ProcessResult result = Train("run", words);
  EXPECT_EQ(result.exit_code, 6) << result.out;
  const Json error = JsonOf(result)["error"];
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("KV cache 3051"));
  EXPECT_THAT(error["hint"].get<std::string>(),
              HasSubstr("KV cache: worker.rollout.neuron_override_config.batch_size"));
  EXPECT_THAT(result.err, HasSubstr("memory: at most "));
}

TEST_F(GrpoTrain, TheBestStepIsOneThatIsSaved) {
  ASSERT_EQ(Train("run", {"trainer.max_steps=7", "trainer.val_freq=1", "trainer.save_freq=3",
                          "trainer.val_before_train=true", "trainer.save_limit=1"})
                .exit_code,
            0);
  const Json tracker = Json::parse(ReadFile(workshop_ / "run/checkpoint_tracker.json"));
  EXPECT_EQ(tracker["last_global_step"], 7);
  ASSERT_TRUE(tracker.contains("best_global_step"));
  EXPECT_TRUE(fs::exists(workshop_ / ("run/global_step_" + tracker["best_global_step"].dump())));
}

// The checkpoints are whole; the file that names them was cut short by a full disk or a power cut.
TEST_F(GrpoTrain, AnEmptyTrackerDoesNotStopTheRun) {
  ASSERT_EQ(Train("run", {"trainer.max_steps=2", "trainer.save_freq=1"}).exit_code, 0);
  const std::string tracker = workshop_ / "run/checkpoint_tracker.json";
  const std::string newest = workshop_ / "run/global_step_2";
  for (const char* text : {"", "{\"last_global_step\": 9}"}) {
    std::ofstream(tracker) << text;
    Words words = Command("run", {"trainer.max_steps=4", "--dry-run"});
    const ProcessResult planned = RunProcess(words);
    EXPECT_EQ(planned.exit_code, 0) << planned.out;
    EXPECT_THAT(planned.err, HasSubstr("warning: " + tracker));
    EXPECT_THAT(planned.err, HasSubstr("global_step_2, the newest checkpoint"));
    EXPECT_THAT(JsonOf(planned)["warnings"],
                ::testing::Contains(HasSubstr("global_step_2, the newest checkpoint")));
    EXPECT_EQ(JsonOf(planned)["chosen"],
              Json::array({{{"path", newest}, {"of", 2}, {"by", "number"}}}));
    const ProcessResult named = Train(
        "other", {"trainer.max_steps=4", "trainer.load_checkpoint_path=" + (workshop_ / "run")});
    EXPECT_EQ(named.exit_code, 3) << named.out;
    EXPECT_EQ(JsonOf(named)["error"]["file"], tracker);
    EXPECT_EQ(JsonOf(named)["error"]["hint"],
              "name a checkpoint, such as the newest: trainer.load_checkpoint_path=" + newest);
    // The commands that open the run choose the same one, and report it.
    const ProcessResult opened = RunProcess({Workshop::Tool("ckpt-digest"), workshop_ / "run"});
    EXPECT_EQ(opened.exit_code, 0) << opened.err;
    EXPECT_THAT(opened.err, HasSubstr("took " + newest + ", the highest number of 2\n"));
    EXPECT_THAT(opened.err, HasSubstr("warning: " + tracker));
  }
  const ProcessResult rest = Train("run", {"trainer.max_steps=4"});
  EXPECT_EQ(rest.exit_code, 0) << rest.out;
  EXPECT_EQ(JsonOf(rest)["first_step"], 2);
  EXPECT_EQ(JsonOf(rest)["chosen"][0]["path"], newest);
  EXPECT_THAT(JsonOf(rest)["warnings"], ::testing::Contains(HasSubstr(tracker)));
}

// More weights than the memory limit of the other commands.
TEST_F(GrpoTrain, AModelOfHalfAGigabyteStarts) {
  Json config = Json::parse(ReadFile(workshop_ / "arithmetic/model/config.json"));
  config["hidden_size"] = 1024;
  config["intermediate_size"] = 4096;
  config["num_hidden_layers"] = 4;
  const std::string model = workshop_ / "large";
  ASSERT_EQ(RunProcess({Workshop::Tool("nxdkit-make-model"), "--config",
                        workshop_.Write("large.json", config.dump()), "--out", model})
                .exit_code,
            0);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
    fs::copy_file(workshop_ / "arithmetic/model/" + name, model + "/" + name);
  const ProcessResult result =
      Train("run",
            {"trainer.max_steps=1", "worker.actor.model.model_path=" + model, "worker.rollout.n=2",
             "algorithm.disable_kl=false", "worker.actor.micro_batch_size_per_device_for_update=64",
             "worker.actor.micro_batch_size_per_device_for_experience=64"});
  EXPECT_EQ(result.exit_code, 0) << result.out.substr(0, 2000);
}

// No checkpoint is due, but the finished steps are saved. The run is stopped in its fifth step,
// whose reward waits as long as the file "holds" exists.
TEST_F(GrpoTrain, StopsOnSigintAndGoesOn) {
  const std::string script =
      workshop_.Write("reward.sh",
                      "n=0\nwhile read -r line; do\n  n=$((n + 1))\n"
                      "  if [ $n = 2049 ] && [ -e \"$0.holds\" ]; then\n    mkdir \"$0.held\"\n"
                      "    while [ -e \"$0.holds\" ]; do sleep 0.1; done\n  fi\n"
                      "  echo \"{\\\"overall\\\": $((${#line} % 3))}\"\ndone\n");
  const std::string reward = "worker.reward.reward_function=exec:bash " + script;
  ASSERT_EQ(Train("whole", {"trainer.max_steps=12", reward}).exit_code, 0);
  workshop_.Write("reward.sh.holds", "");
  const pid_t child = StartProcess(Command("run", {"trainer.max_steps=5000", reward}));
  ASSERT_TRUE(WaitFor(script + ".held"));
  ::kill(child, SIGINT);
  EXPECT_EQ(WaitProcess(child), 130);
  const Json tracker = Json::parse(ReadFile(workshop_ / "run/checkpoint_tracker.json"));
  EXPECT_EQ(tracker["last_global_step"], 4);
  EXPECT_EQ(Steps("run").size(), 4u);
  fs::remove(script + ".holds");
  const ProcessResult rest = Train("run", {"trainer.max_steps=12", reward});
  EXPECT_EQ(rest.exit_code, 0) << rest.out;
  EXPECT_EQ(JsonOf(rest)["first_step"], 4);
  EXPECT_THAT(rest.err, HasSubstr(", learning rate 0.003, data at epoch"));
  EXPECT_EQ(Steps("run"), Steps("whole"));
}

// The initial environment of a process, which it still shows.
Words EnvironmentOf(pid_t pid) {
  const std::string text = ReadFile(fmt::format("/proc/{}/environ", pid));
  Words entries;
  for (size_t at = 0; at < text.size(); at = text.find('\0', at) + 1)
    entries.push_back(text.substr(at, text.find('\0', at) - at));
  return entries;
}

Words WithNeuron(const Words& entries) {
  Words found;
  for (const std::string& entry : entries)
    if (entry.starts_with("NEURON")) found.push_back(entry);
  std::ranges::sort(found);
  return found;
}

TEST_F(GrpoTrain, NeuronVariablesReachTheRolloutWorkersOnly) {
  const std::string reward = workshop_.Write(
      "reward.sh", "env > \"$0.env\"\nwhile read -r line; do echo '{\"overall\": 0.5}'; done\n");
  Words command = {"/usr/bin/env", "NEURON_COMPILED_ARTIFACTS=/bundles/a",
                   "NEURON_RT_VISIBLE_CORES=4-7", "A_NAME=of another program"};
  for (const std::string& word : Command(
           "run", {"trainer.max_steps=5000", "worker.reward.reward_function=exec:bash " + reward}))
    command.push_back(word);
  const pid_t trainer = StartProcess(command);
  ASSERT_TRUE(WaitFor(reward + ".env"));
  const Words own = EnvironmentOf(trainer);
  EXPECT_THAT(WithNeuron(own), ::testing::IsEmpty());
  EXPECT_THAT(own, ::testing::Contains("A_NAME=of another program"));
  std::vector<Words> of_workers;
  for (const pid_t child : ChildrenOf(trainer))
    if (testing_util::ProcText(fmt::format("/proc/{}", child), "cmdline")
            .find("--rollout-worker") != std::string::npos)
      of_workers.push_back(EnvironmentOf(child));
  ::kill(trainer, SIGTERM);
  EXPECT_EQ(WaitProcess(trainer), 143);
  ASSERT_EQ(of_workers.size(), 1u);
  // The first two of 4 cores train.
  EXPECT_THAT(WithNeuron(of_workers[0]),
              ::testing::ElementsAre("NEURON_COMPILED_ARTIFACTS=/bundles/a",
                                     "NEURON_RT_VISIBLE_CORES=6-7"));
  EXPECT_THAT(of_workers[0], Not(::testing::Contains("A_NAME=of another program")));
  EXPECT_THAT(ReadFile(reward + ".env"), Not(HasSubstr("NEURON")));
}

TEST_F(GrpoTrain, CoresThatCannotBeDividedAreFoundFirst) {
  const std::map<std::string, std::string> rows = {
      {"0-2", "names 3 cores, the run has 4"},
      {"abc", "'abc' is not a list of cores"},
      {"9,0,0,2,3", "names core 0 more than once"},
  };
  for (const auto& [cores, message] : rows)
    for (const char* word : {"--dry-run", "trainer.max_steps=1"}) {
      const ProcessResult refused =
          RunProcess(Command("run", {word}), {"NEURON_RT_VISIBLE_CORES=" + cores});
      EXPECT_EQ(refused.exit_code, 2) << word << refused.out;
      EXPECT_THAT(refused.out, HasSubstr(message)) << word;
    }
  EXPECT_FALSE(fs::exists(workshop_ / "run"));
  EXPECT_EQ(RunProcess(Command("run", {"--dry-run"}), {"NEURON_RT_VISIBLE_CORES=4-7"}).exit_code,
            0);
}

// The example, with a default trainer.cores.
TEST_F(GrpoTrain, TheCoresAreThoseOfTheInstanceOrThoseThatAreVisible) {
  std::string yaml = ReadFile(NXDKIT_SOURCE_DIR "/trainer/configs/arithmetic.yaml");
  const size_t at = yaml.find("  cores: 4\n");
  ASSERT_NE(at, std::string::npos);
  yaml.erase(at, 11);
  const std::string config = workshop_.Write("config.yaml", yaml);
  const auto run = [&](const Words& words, const Words& environment) {
    Words command = Command("run", words);
    *std::ranges::find(command, NXDKIT_SOURCE_DIR "/trainer/configs/arithmetic.yaml") = config;
    return RunProcess(command, environment);
  };
  const ProcessResult visible = run({"--print-config"}, {"NEURON_RT_VISIBLE_CORES=0-1,4-5"});
  EXPECT_THAT(visible.out, HasSubstr("cores: 4"));
  EXPECT_THAT(visible.out, HasSubstr("NEURON_RT_VISIBLE_CORES=0-1,4-5"));
  EXPECT_THAT(run({"--print-config", "trainer.cores=2"}, {"NEURON_RT_VISIBLE_CORES=0-3"}).out,
              HasSubstr("cores: 2"));
  const ProcessResult whole = run({"--print-config", "--instance", "trn1.32xlarge"}, {});
  EXPECT_THAT(whole.out, HasSubstr("cores: 32"));
  EXPECT_THAT(whole.out, HasSubstr("--instance trn1.32xlarge"));
  // EasyR1's key counts GPUs.
  const ProcessResult gpus =
      run({"--print-config", "--instance", "trn1.32xlarge", "trainer.n_gpus_per_node=8"}, {});
  EXPECT_THAT(gpus.out, HasSubstr("cores: 32"));
  EXPECT_THAT(gpus.err,
              HasSubstr("32 cores, by --instance trn1.32xlarge: trainer.n_gpus_per_node=8 "
                        "(command line: trainer.n_gpus_per_node=8) is not used"));
  EXPECT_EQ(run({"--dry-run", "--instance", "trn1.33xlarge"}, {}).exit_code, 2);
}

TEST_F(GrpoTrain, WhatDoesNotFitAnInstanceIsRefused) {
  const ProcessResult fits = Train("run", {"--dry-run", "--instance", "trn1.32xlarge"});
  EXPECT_EQ(fits.exit_code, 0) << fits.out;
  EXPECT_THAT(fits.err, HasSubstr("trn1.32xlarge, training: weights 0.00 GiB + gradients"));
  EXPECT_THAT(fits.err, HasSubstr("trn1.32xlarge, rollout: weights 0.00 GiB + KV cache"));
  const ProcessResult refused =
      Train("run", {"--dry-run", "--instance", "trn1.2xlarge", "trainer.cores=8"});
  EXPECT_EQ(refused.exit_code, 1) << refused.out;
  EXPECT_THAT(refused.out,
              HasSubstr("4 cores are to train and 4 to roll out, and trn1.2xlarge has 2"));
  // Each of the two halves alone would fit.
  const ProcessResult together = Train("run", {"--dry-run", "--instance", "trn1.2xlarge"});
  EXPECT_EQ(together.exit_code, 1) << together.out;
  EXPECT_THAT(together.out,
              HasSubstr("2 cores are to train and 2 to roll out, and trn1.2xlarge has 2"));
  EXPECT_THAT(together.out, HasSubstr("the smallest instance that takes it in this layout is"));
  EXPECT_FALSE(fs::exists(workshop_ / "run"));
}

TEST_F(GrpoTrain, CoresThatTheInstanceLacksAreRefused) {
  const struct {
    const char* cores;
    const char* message;
  } rows[] = {{"32-35", "names core 35, the instance has cores 0 to 31"},
              {"3-6", "a group of training with tp 2 gets the cores 3-4"},
              {"0-1,5,9", "a group of rollout with tp 2 gets the cores 5,9"}};
  for (const auto& row : rows) {
    const ProcessResult result =
        RunProcess(Command("run", {"--dry-run", "--instance", "trn1.32xlarge",
                                   "worker.actor.tensor_parallel_size=2",
                                   "worker.rollout.tensor_parallel_size=2"}),
                   {std::string("NEURON_RT_VISIBLE_CORES=") + row.cores});
    EXPECT_EQ(result.exit_code, 2) << row.cores << result.out;
    EXPECT_THAT(result.err, HasSubstr(row.message));
  }
}

// worker.actor.model.tokenizer_path: the tokenizer used in training is the exported one.
TEST_F(GrpoTrain, TheTokenizerGoesWithEveryModel) {
  const std::string model = workshop_ / "arithmetic/model";
  const std::string text = workshop_ / "text";
  fs::create_directory(text);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    fs::rename(model + "/" + name, text + "/" + name);
  workshop_.Write("arithmetic/model/vocab.json", "{}");  // another tokenizer's
  const ProcessResult result =
      Train("run", {"trainer.max_steps=1", "worker.actor.model.tokenizer_path=" + text});
  ASSERT_EQ(result.exit_code, 0) << result.out;
  for (const char* folder :
       {"run/rollout_bundle", "run/global_step_1/actor", "run/global_step_1/actor/huggingface"}) {
    SCOPED_TRACE(folder);
    const std::string made = workshop_ / folder;
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
      EXPECT_EQ(ReadFile(made + "/" + name), ReadFile(text + "/" + name));
    EXPECT_EQ(ReadFile(made + "/generation_config.json"),
              ReadFile(model + "/generation_config.json"));
    EXPECT_FALSE(fs::exists(made + "/vocab.json"));
  }
}

TEST_F(GrpoTrain, TheDateOfATemplateIsThatOnWhichTheRunBegan) {
  const Words words = {
      "data.override_chat_template=" +
      workshop_.Write("dated.jinja",
                      "{% set day = strftime_now('%d') %}{{ messages[0].content }}")};
  const auto train = [&](const std::string& steps, const std::string& more = "seed=1") {
    Words all = words;
    all.insert(all.end(), {"trainer.max_steps=" + steps, "data." + more});
    return Train("run", all);
  };
  const ProcessResult begun = train("1");
  ASSERT_EQ(begun.exit_code, 0) << begun.out;
  const std::string state = workshop_ / "run/global_step_1/trainer_state.json";
  Json json = Json::parse(ReadFile(state));
  EXPECT_THAT(json["template_date"].get<std::string>(),
              ::testing::MatchesRegex("20[0-9]{2}-[0-9]{2}-[0-9]{2}"));
  json["template_date"] = "1999-12-31";
  workshop_.Write("run/global_step_1/trainer_state.json", json.dump());
  const ProcessResult rest = train("2");
  ASSERT_EQ(rest.exit_code, 0) << rest.out;
  EXPECT_THAT(rest.err, HasSubstr("the chat template's date is 1999-12-31 throughout the run"));
  const std::string next = workshop_ / "run/global_step_2/trainer_state.json";
  EXPECT_EQ(Json::parse(ReadFile(next))["template_date"], "1999-12-31");
  EXPECT_THAT(train("2", "template_date=2001-01-01").err, HasSubstr("date is 2001-01-01"));
  json["template_date"] = "yesterday";
  workshop_.Write("run/global_step_2/trainer_state.json", json.dump());
  const ProcessResult damaged = train("3");
  EXPECT_EQ(damaged.exit_code, 3);
  EXPECT_THAT(damaged.out, HasSubstr("'yesterday' is not a day"));
}

TEST_F(GrpoTrain, SavesAndGoesOnAtSigusr1) {
  const pid_t child = StartProcess(Command("run", {"trainer.max_steps=5000"}));
  ASSERT_TRUE(WaitFor(workshop_ / "run/weight_syncs.jsonl"));
  ::kill(child, SIGUSR1);
  const std::string tracker = workshop_ / "run/checkpoint_tracker.json";
  ASSERT_TRUE(WaitFor(tracker));
  const auto step = Json::parse(ReadFile(tracker))["last_global_step"].get<int64_t>();
  EXPECT_TRUE(fs::exists(workshop_ / fmt::format("run/global_step_{}/actor/done", step)));
  ::kill(child, SIGINT);
  EXPECT_EQ(WaitProcess(child), 130);
  EXPECT_GE(Steps("run").rbegin()->first, step);
}

}  // namespace
}  // namespace nxdkit::test
