// trainer/configs/config_trainium.yaml unchanged, on a compiled bundle: the report of --instance,
// and a run with a stand-in for the program that has the devices. Also the messages on such
// machines about cores, launchers, and formats that cannot be reached.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/trainium_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// "KV cache 0.00 GiB ..." of a line.
std::string FitOf(const std::string& text, const std::string& before) {
  const size_t at = text.find(before);
  if (at == text.npos) return "none in: " + text;
  const size_t begin = text.find("weights", at);
  return text.substr(begin, text.find(')', begin) + 1 - begin);
}

TEST_F(Trainium, OneCountOfWhatABundleTakes) {
  const ProcessResult made = Export({"--no-blob", "--dry-run", "--force"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const ProcessResult run = RunProcess(Port({Peer(), "--dry-run", "--instance", "trn1.32xlarge"}));
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_EQ(FitOf(run.err, "trn1.32xlarge, rollout: "), FitOf(made.out, "weights"));
  const size_t memory = run.err.find("memory: at most");
  ASSERT_NE(memory, std::string::npos) << run.err;
  EXPECT_THAT(run.err.substr(memory, run.err.find('\n', memory) - memory),
              Not(HasSubstr("KV cache")))
      << "it lies on the device";
}

TEST_F(Trainium, TheShippedConfigurationRunsOnACompiledBundle) {
  const ProcessResult result = RunProcess(Port(
      {Peer(), "trainer.max_steps=2", "trainer.val_freq=-1", "trainer.val_before_train=false"}));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(Steps("run").size(), 2u);
  const Json answer = Json::parse(result.out);
  EXPECT_EQ(answer["last_step"], 2);
  EXPECT_THAT(answer["warnings"],
              Contains(HasSubstr("samples on the device and returns no log-probabilities")));
  EXPECT_EQ(Steps("run")[1]["critic"]["score"]["equal_groups"], 1);
}

// When our own engine is asked to run a bundle compiled for devices, the error names the programs
// for these.
TEST_F(Trainium, OurEngineNamesThoseThatRunACompiledBundle) {
  const ProcessResult refused =
      RunProcess(Port({"worker.rollout.engine=cpu", "worker.rollout.command=null", "--dry-run"}));
  EXPECT_EQ(refused.exit_code, 4) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("model.pt is compiled for Neuron devices"));
  EXPECT_THAT(refused.err, HasSubstr("worker.rollout.engine=vllm or exec"));
}

TEST_F(Trainium, ImportanceWeightsNeedAnEngineThatTellsThem) {
  const ProcessResult refused =
      RunProcess(Port({Peer(), "algorithm.rollout_is=token", "--dry-run"}));
  EXPECT_EQ(refused.exit_code, 2) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("algorithm.rollout_is"));
  EXPECT_THAT(refused.err, HasSubstr("--no-on-device-sampling"));
}

TEST_F(GrpoTrain, ANumberOfCoresIsThatOfTheRun) {
  const auto run = [&](const Words& words, const Words& environment) {
    Words command = Command("run", words);
    command.push_back("trainer.cores=null");
    return RunProcess(command, environment);
  };
  const ProcessResult four = run({"--print-config"}, {"NEURON_RT_NUM_CORES=4"});
  EXPECT_THAT(four.out, HasSubstr("cores: 4"));
  EXPECT_THAT(four.out, HasSubstr("NEURON_RT_NUM_CORES=4"));
  EXPECT_THAT(run({"--print-config"}, {"NEURON_RT_NUM_CORES=4", "NEURON_RT_VISIBLE_CORES=0-7"}).out,
              HasSubstr("cores: 8"));
  EXPECT_THAT(run({"--print-config", "--instance", "trn1.32xlarge"}, {"NEURON_RT_NUM_CORES=0"}).out,
              HasSubstr("cores: 32"));
  const ProcessResult refused =
      RunProcess(Command("run", {"--dry-run"}), {"NEURON_RT_NUM_CORES=3"});
  EXPECT_EQ(refused.exit_code, 2) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("NEURON_RT_NUM_CORES=3 names 3 cores, the run has 4"));
  EXPECT_EQ(run({"--dry-run"}, {"NEURON_RT_NUM_CORES=many"}).exit_code, 2);
}

// Each of them would train, in the same folder.
TEST_F(GrpoTrain, TorchrunIsAnsweredWithMpirunAndSrun) {
  const struct {
    Words environment;
    const char* message;
  } rows[] = {{{"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "MASTER_ADDR=localhost",
                "TORCHELASTIC_RUN_ID=none"},
               "torchrun has started 2 processes (WORLD_SIZE), and this is RANK 1"},
              {{"RANK=0", "WORLD_SIZE=3", "MASTER_ADDR=host"},
               "a launcher of torch.distributed has started 3 processes"}};
  for (const auto& row : rows)
    for (const char* word : {"--dry-run", "trainer.max_steps=1"}) {
      const ProcessResult refused = RunProcess(Command("run", {word}), row.environment);
      EXPECT_EQ(refused.exit_code, 2) << word << refused.out;
      EXPECT_THAT(refused.err, HasSubstr(row.message));
      EXPECT_THAT(refused.err, HasSubstr("mpirun --map-by ppr:1:node"));
      EXPECT_THAT(refused.err, HasSubstr("srun --ntasks-per-node=1"));
    }
  EXPECT_FALSE(fs::exists(workshop_ / "run"));
  // One process, or names that a job script exports to all that it starts.
  for (const Words& harmless :
       {Words{"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "MASTER_ADDR=h", "TORCHELASTIC_RUN_ID=x"},
        Words{"WORLD_SIZE=4", "MASTER_ADDR=h"}})
    EXPECT_EQ(RunProcess(Command("run", {"--dry-run"}), harmless).exit_code, 0);
}

class GrpoFormat : public GrpoTrain {
 protected:
  // The example's model with two more tokens, and a template that ends with `end`.
  Words WithTemplate(const std::string& end, const Words& more) const {
    const std::string folder = workshop_ / "thinker";
    if (!fs::exists(folder)) MakeThinker(folder);
    Words words = {"worker.actor.model.model_path=" + folder,
                   "data.override_chat_template=" +
                       workshop_.Write("t.jinja", "{{ messages[0]['content'] }}" + end),
                   "data.max_prompt_length=6", "worker.rollout.neuron_override_config.seq_len=10",
                   "worker.reward.reward_function=math"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

 private:
  void MakeThinker(const std::string& folder) const {
    const std::string example = workshop_ / "arithmetic/model/";
    Json config = Json::parse(ReadFile(example + "config.json"));
    config["vocab_size"] = 32;
    const ProcessResult made = RunProcess(
        {Workshop::Tool("nxdkit-make-model"), "--quiet", "--config",
         workshop_.Write("thinker.json", config.dump()), "--dtype", "f32", "--out", folder});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    Json tokenizer = Json::parse(ReadFile(example + "tokenizer.json"));
    int id = 16;
    for (const char* tag : {"<think>", "</think>"})
      tokenizer["added_tokens"].push_back({{"id", id++},
                                           {"content", tag},
                                           {"single_word", false},
                                           {"lstrip", false},
                                           {"rstrip", false},
                                           {"normalized", false},
                                           {"special", false}});
    workshop_.Write("thinker/tokenizer.json", tokenizer.dump());
    for (const char* name : {"tokenizer_config.json", "generation_config.json"})
      fs::copy(example + name, folder);
  }
};

// DeepSeek-R1-Distill's template; the response cannot begin with text that the prompt has.
TEST_F(GrpoFormat, AFormatThatCannotBeReachedIsTold) {
  const Words words = WithTemplate("<think>", {"--dry-run"});
  const ProcessResult dry = Train("run", words);
  ASSERT_EQ(dry.exit_code, 0) << dry.out << dry.err;
  EXPECT_THAT(dry.err, HasSubstr("warning: the prompt ends with <think>"));
  EXPECT_THAT(Json::parse(dry.out)["warnings"],
              Contains(HasSubstr("the format of reward math is never right")));
  const ProcessResult run = Train("run", WithTemplate("<think>", {"trainer.max_steps=1"}));
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(Json::parse(run.out)["warnings"],
              Contains(HasSubstr("the format of reward math is never right")));
  EXPECT_THAT(ReadFile(workshop_ / "run/running_log/trainer.log"),
              HasSubstr("warning: the prompt ends with <think>"));
  const ProcessResult weightless =
      Train("run2", WithTemplate("<think>", {"--dry-run",
                                             "worker.reward.reward_function_kwargs.format_weight="
                                             "0"}));
  EXPECT_THAT(weightless.err, Not(HasSubstr("never right")));
  EXPECT_THAT(Train("run2", WithTemplate("", {"--dry-run"})).err, Not(HasSubstr("never right")));
}

// The answers are wrong: every response scores 0.
TEST_F(GrpoTrain, RewardsThatAreAllTheSameAreTold) {
  const std::string data = workshop_.Write("never.jsonl", [] {
    std::string rows;
    for (int i = 0; i < 64; ++i)
      rows += fmt::format("{{\"prompt\": \"{}+{}=\", \"answer\": \"never\"}}\n", i % 8, i / 8);
    return rows;
  }());
  const ProcessResult result = Train("run", {"data.train_files=" + data, "trainer.max_steps=6"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning: nothing has been learnt from the rewards in all 5 "
                                    "steps: all responses to each prompt scored the same (0)"));
  const Json answer = Json::parse(result.out);
  ASSERT_EQ(answer["warnings"].size(), 1u) << answer["warnings"];
  EXPECT_THAT(answer["warnings"][0].get<std::string>(), HasSubstr("all advantages are 0"));
  EXPECT_EQ(answer["metrics"]["critic/score/equal_groups"], 1);
}

// transformers accepts the head then, our commands refuse the file: a run trains neither.
TEST_F(Trainium, AnotherHeadBesideTiedEmbeddingsIsRefused) {
  const std::string weights = model_ + "/model.safetensors";
  const std::string head(size_t{16} * 64 * 2, '\x01');
  const std::string file = ReadFile(weights);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  Json header = Json::parse(file.substr(8, length));
  const uint64_t bytes = file.size() - 8 - length;
  header["lm_head.weight"] = {
      {"dtype", "BF16"}, {"shape", {16, 64}}, {"data_offsets", {bytes, bytes + head.size()}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  length = text.size();
  workshop_.Write("model/model.safetensors",
                  std::string(reinterpret_cast<const char*>(&length), sizeof length) + text +
                      file.substr(8 + file.size() - 8 - bytes) + head);
  const ProcessResult refused = RunProcess(Port({Peer(), "trainer.max_steps=1"}));
  EXPECT_EQ(refused.exit_code, 3) << refused.out << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("lm_head.weight"));
}

}  // namespace
}  // namespace nxdkit::test
