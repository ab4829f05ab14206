// trainer/configs/config_trainium.sh: from a model and data to a run on a compiled bundle, with
// stand-ins for the compiler and for the program that has the devices; and its errors for options
// of other launchers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/tools/export_workshop.h"
#include "tests/tools/trainium_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainiumScript : public TrainiumPlace {
 protected:
  void SetUp() override {
    TrainiumPlace::SetUp();
    compilers_.Compiler();
  }
  ProcessResult Script(const Words& more, Words environment = {}) const {
    Words words = {"bash", NXDKIT_SOURCE_DIR "/trainer/configs/config_trainium.sh", "--build",
                   NXDKIT_TOOLS "/.."};
    words.insert(words.end(), more.begin(), more.end());
    const char* path = std::getenv("PATH");
    environment.push_back("PATH=" + compilers_ / "bin" + ":" + (path == nullptr ? "" : path));
    environment.push_back("NEURON_COMPILE_CACHE_URL=" + compilers_.Cache());
    return RunProcess(words, environment);
  }
  // The options that the file and the sizes of this test leave open.
  Words Small(const Words& more) const {
    Words words = Paths();
    for (const Words& each :
         {Words{Peer(), "trainer.val_freq=-1", "trainer.val_before_train=false"}, more})
      words.insert(words.end(), each.begin(), each.end());
    return words;
  }
  const ExportWorkshop compilers_;
};

TEST_F(TrainiumScript, MakesTheBundleTrainsAndGoesOn) {
  const Words once = Small({"--instance", "trn1.32xlarge", "trainer.max_steps=1"});
  const ProcessResult first = Script(once);
  ASSERT_EQ(first.exit_code, 0) << first.out << first.err;
  EXPECT_THAT(first.err, AllOf(HasSubstr("Neuron devices; the run is for trn1.32xlarge"),
                               HasSubstr(bundle_ + " is not there and is made first")));
  EXPECT_EQ(compilers_.Runs(), 1u);
  const std::string command = ReadFile(compilers_ / "runs");
  for (const char* part : {"--tensor_parallel_size 8", "--batch_size 64", "--sequence_length 4096"})
    EXPECT_THAT(command, HasSubstr(part));
  EXPECT_TRUE(ReadFile(bundle_ + "/model.pt") == testing_util::CompiledBlob());
  EXPECT_EQ(Steps("run").size(), 1u);

  Words twice = once;
  twice.back() = "trainer.max_steps=2";
  const ProcessResult second = Script(twice);
  ASSERT_EQ(second.exit_code, 0) << second.out << second.err;
  EXPECT_THAT(second.err, HasSubstr(bundle_ + " is there"));
  EXPECT_EQ(compilers_.Runs(), 1u);
  EXPECT_EQ(Steps("run").size(), 2u);
}

// The job before a training job: the same words and one more.
TEST_F(TrainiumScript, MakesTheBundleAndStops) {
  Words words = Small({"--instance", "trn1.32xlarge", "trainer.max_steps=1", "--bundle-only"});
  for (const bool is_there : {false, true}) {
    EXPECT_EQ(fs::exists(bundle_), is_there);
    const ProcessResult made = Script(words);
    EXPECT_EQ(made.exit_code, 0) << made.out << made.err;
    EXPECT_THAT(made.err, HasSubstr("nothing is trained: --bundle-only"));
    EXPECT_EQ(compilers_.Runs(), 1u);
    EXPECT_FALSE(fs::exists(workshop_ / "run"));
  }
}

// Compiling needs no engine: its program matters only to the training job.
TEST_F(TrainiumScript, MakesTheBundleWhereThereIsNoEngine) {
  Words words = Small({"worker.rollout.command=no-such-server {port} {model} {max_num_seqs} {tp}",
                       "trainer.max_steps=1"});
  const ProcessResult whole = Script(words);
  EXPECT_EQ(whole.exit_code, 3) << whole.out << whole.err;
  EXPECT_THAT(whole.err, HasSubstr("no-such-server"));
  EXPECT_EQ(compilers_.Runs(), 0u);
  words.push_back("--bundle-only");
  const ProcessResult made = Script(words);
  EXPECT_EQ(made.exit_code, 0) << made.out << made.err;
  EXPECT_EQ(compilers_.Runs(), 1u);
  words.push_back("worker.rollout.model_path=" + workshop_ / "other");
  words.push_back("data.rollout_batch_size=63");
  EXPECT_EQ(Script(words).exit_code, 2) << "the rest is checked";
  EXPECT_EQ(compilers_.Runs(), 1u);
}

// The commands can read it, even if its name is in no table.
TEST_F(TrainiumScript, IsForThisMachineWhereItHasDevices) {
  const std::string captures = NXDKIT_TESTDATA "/neuron_ls/";
  const auto dry = [&](const std::string& capture, const Words& more) {
    compilers_.Script("neuron-ls", "cat " + captures + capture + ".json\n");
    Words words = Small({"--dry-run"});
    words.insert(words.end(), more.begin(), more.end());
    return Script(words);
  };
  const ProcessResult trn1 = dry("trn1.32xlarge", {});
  EXPECT_EQ(trn1.exit_code, 0) << trn1.out << trn1.err;
  EXPECT_THAT(trn1.err, AllOf(HasSubstr("this machine: trn1.32xlarge (neuron-ls): 16 devices"),
                              HasSubstr("; the run is for auto")));
  const ProcessResult trn3 = dry("trn3", {"trainer.cores=16"});
  EXPECT_EQ(trn3.exit_code, 0) << trn3.out << trn3.err;
  EXPECT_THAT(trn3.err, HasSubstr("; the run is for auto"));
  const ProcessResult named = dry("trn1.32xlarge", {"--instance", "trn2.48xlarge"});
  EXPECT_THAT(named.err, HasSubstr("; the run is for trn2.48xlarge"));
}

// The keys on the port's page, which names neither an engine nor the cores, and these values; the
// reward, the data's columns and the size of an update are not on it.
constexpr char kPageConfig[] = R"(worker:
  actor:
    tensor_parallel_size: 8
    model: {model_path: /data/models/qwen3_4b_base, enable_gradient_checkpointing: true}
    optim: {lr: 1.0e-5, strategy: adamw_bf16}
  rollout:
    model_path: /data/models/qwen3_4b_neuron_tp8_bs64
    tensor_parallel_size: 8
    n: 4
    neuron_override_config: {tp_degree: 8, batch_size: 64, seq_len: 4096, on_device_sampling: true}
trainer:
  max_steps: 50
  separate_rollout_workers: true
  training_core_ratio: 0.5
  save_checkpoint_path: /data/models/qwen3_4b_trainium_v2
data:
  train_files: hiyouga/math12k@train
  max_prompt_length: 2048
  max_response_length: 1024
  rollout_batch_size: 64
)";

TEST_F(TrainiumScript, RunsAFileOfThePort) {
  const std::string file = "config=" + workshop_.Write("port.yaml", kPageConfig);
  const Words columns = {file, "data.prompt_key=problem", "worker.reward.reward_function=math",
                         "trainer.max_steps=1"};
  const ProcessResult refused = Script(Small(columns), {"MODEL_PATH=/nowhere"});
  EXPECT_EQ(refused.exit_code, 2) << refused.out << refused.err;
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("worker.rollout.engine is not named; taken are vllm and the command"),
                    HasSubstr("data.rollout_batch_size 64 is not a multiple of 256"),
                    HasSubstr("legal values of worker.actor.global_batch_size: 64, 32")));
  EXPECT_EQ(compilers_.Runs(), 0u) << "that is said before an hour of compiling";
  Words whole = columns;
  whole.push_back("worker.actor.global_batch_size=64");
  const ProcessResult run = Script(Small(whole));
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_EQ(Steps("run").size(), 1u);
}

// Without devices and compilers: the same sizes on our own engine.
TEST_F(TrainiumScript, MakesABundleForOurOwnEngine) {
  const ProcessResult dry =
      Script(Small({"worker.rollout.engine=cpu", "worker.rollout.command=null", "--dry-run"}));
  EXPECT_EQ(dry.exit_code, 0) << dry.out << dry.err;
  EXPECT_EQ(compilers_.Runs(), 0u);
  EXPECT_THAT(dry.err, Not(HasSubstr("taken are vllm")));
  EXPECT_FALSE(fs::exists(bundle_));
}

TEST_F(TrainiumScript, AnswersWordsOfOtherLaunchers) {
  for (const char* word : {"--nproc_per_node=32", "--nnodes", "--head", "--num-gpus=8"}) {
    const ProcessResult refused = Script({word});
    EXPECT_EQ(refused.exit_code, 2) << word;
    EXPECT_THAT(refused.err, AllOf(HasSubstr(std::string(word) + " belongs to a launcher"),
                                   HasSubstr("mpirun or srun")));
  }
  for (const char* word : {"--bild", "train"}) {
    const ProcessResult refused = Script({word});
    EXPECT_EQ(refused.exit_code, 2) << word;
    EXPECT_THAT(refused.err, HasSubstr("usage: bash trainer/configs/config_trainium.sh"));
    EXPECT_THAT(refused.err, Not(HasSubstr("set -euo"))) << "the usage and no line more";
  }
  const ProcessResult said = Script({"worker.rollout.model_path=null", "--dry-run"},
                                    {"RAY_ADDRESS=auto", "NEURON_COMPILED_ARTIFACTS=/x"});
  EXPECT_EQ(said.exit_code, 2) << said.err;
  EXPECT_THAT(said.err, AllOf(HasSubstr("RAY_ADDRESS is not used: there is no Ray here"),
                              HasSubstr("NEURON_COMPILED_ARTIFACTS is not used"),
                              HasSubstr("no bundle is named: worker.rollout.model_path=FOLDER")));
}

}  // namespace
}  // namespace nxdkit::test
