// The memory of a run does not grow with its steps.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/tools/grpo_workshop.h"
#include "tests/tools/kill.h"
#include "tests/tools/mpi_words.h"

namespace nxdkit::test {
namespace {

class GrpoMemorySlow : public GrpoTrain {};

// A sanitizer keeps freed memory for a while.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kBoundMib = 48;
#else
// Growth of 4.4 was seen once, in a bare root; its cause was not found. Weights and optimizer of
// the example are 1.2 MiB; leaked once per step this would be 216.
constexpr double kBoundMib = 8;
#endif

TEST_F(GrpoMemorySlow, IsFlatOver200Steps) {
  // With the engine in a process of its own, and in this one.
  for (const char* separate : {"true", "false"}) {
    SCOPED_TRACE(separate);
    const std::string run = std::string("run_") + separate;
    // Each thread would take memory from an arena of its own, as many as happen to run at once.
    const ProcessResult result = RunProcess(
        Command(run, {"trainer.max_steps=200", "trainer.val_freq=20", "trainer.save_freq=20",
                      "trainer.save_limit=2", "algorithm.disable_kl=false",
                      std::string("trainer.separate_rollout_workers=") + separate,
                      std::string("trainer.cores=") + (*separate == 't' ? "4" : "2")}),
        {"MALLOC_ARENA_MAX=1"});
    ASSERT_EQ(result.exit_code, 0) << result.out;
    std::map<int64_t, double> mib;
    std::ifstream log(workshop_ / (run + "/experiment_log.jsonl"));
    for (std::string line; std::getline(log, line);) {
      const Json record = Json::parse(line);
      if (record.contains("perf"))
        mib[record["step"].get<int64_t>()] =
            1024 * record["perf"]["cpu_memory_used_gb"].get<double>();
    }
    ASSERT_EQ(mib.size(), 200u);
    EXPECT_LT(mib[200] - mib[20], kBoundMib) << mib[20] << " MiB after step 20";
  }
}

// VmHWM of a running process, in bytes; 0 when it has ended.
uint64_t PeakOf(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string word; status >> word;)
    if (uint64_t kilobytes = 0; word == "VmHWM:" && status >> kilobytes) return kilobytes << 10;
  return 0;
}

double Gib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

// A model whose weights and optimizer outweigh everything counted per thread; prompts and responses
// have their maximal lengths.
class GrpoPeakSlow : public GrpoTrain {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer takes memory of its own";
#endif
    GrpoTrain::SetUp();
    const std::string config = workshop_.Write(
        "config.json",
        R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 768,
            "intermediate_size": 2304, "num_hidden_layers": 12, "num_attention_heads": 12,
            "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 16,
            "tie_word_embeddings": true, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
            "max_position_embeddings": 64, "hidden_act": "silu", "attention_bias": false,
            "eos_token_id": 1})");
    const ProcessResult made = RunProcess({Workshop::Tool("nxdkit-make-model"), "--config", config,
                                           "--dtype", "f32", "--out", model_});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    for (const char* file : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
      std::filesystem::copy(workshop_ / (std::string("arithmetic/model/") + file),
                            model_ + "/" + file);
  }
  // `cores` of each machine.
  Words Words2(const std::string& run, int cores, int nodes) const {
    return Command(
        run, {"worker.actor.model.model_path=" + model_, fmt::format("trainer.cores={}", cores),
              fmt::format("trainer.nnodes={}", nodes), "trainer.separate_rollout_workers=false",
              "trainer.max_steps=3", "worker.actor.tensor_parallel_size=1",
              "worker.rollout.tensor_parallel_size=1",
              "worker.rollout.neuron_override_config.tp_degree=1",
              "worker.rollout.neuron_override_config.batch_size=32", "data.rollout_batch_size=8",
              "worker.rollout.n=4", "worker.actor.global_batch_size=8",
              "worker.actor.micro_batch_size_per_device_for_update=8",
              "worker.actor.micro_batch_size_per_device_for_experience=8"});
  }
  // GiB; `who`: "machine 1: ", or nothing for a single machine.
  double Estimate(const std::string& run, const std::string& who) const {
    const std::string log = ReadFile(workshop_ / (run + "/running_log/trainer.log"));
    const std::string said = who + "memory: at most ";
    EXPECT_NE(log.find(said), std::string::npos);
    return std::stod(log.substr(log.find(said) + said.size()));
  }
  const std::string model_ = workshop_ / "model";
};

TEST_F(GrpoPeakSlow, TheEstimateIsWithinFivePercentOfThePeak) {
  for (const int ranks : {1, 2, 4}) {
    SCOPED_TRACE(fmt::format("{} data parallel ranks", ranks));
    const std::string run = fmt::format("run_{}", ranks);
    const pid_t process = StartProcess(Words2(run, ranks, 1));
    uint64_t peak = 0;
    while (const uint64_t now = PeakOf(process)) {
      peak = now;
      ::usleep(10'000);
    }
    ASSERT_EQ(WaitProcess(process), 0);
    const double estimate = Estimate(run, "");
    EXPECT_NEAR(Gib(peak), estimate, 0.05 * estimate);
    std::filesystem::remove_all(workshop_ / run);
  }
}

// For a run under Open MPI: its process of this number, and that process's rollout workers.
std::vector<pid_t> ProcessesOf(const std::string& run, int number) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string own = fmt::format("OMPI_COMM_WORLD_RANK={}", number) + '\0';
    if (testing_util::ProcText(entry.path(), "cmdline").find("save_checkpoint_path=" + run) ==
            std::string::npos ||
        testing_util::ProcText(entry.path(), "environ").find(own) == std::string::npos)
      continue;
    found.push_back(std::stoi(name));
    std::ifstream children(entry.path() / "task" / name / "children");
    for (pid_t child = 0; children >> child;) found.push_back(child);
  }
  return found;
}

// Each process holds its ranks, a rollout worker, and MPI's memory.
TEST_F(GrpoPeakSlow, TheEstimateOfEachMachineIsWithinFivePercentOfItsPeak) {
  if (const std::string missing = MpiMissing(); !missing.empty()) GTEST_SKIP() << missing;
  const pid_t job = StartProcess(MpiWords(2, Words2("two", 1, 2)));
  std::map<int, std::map<pid_t, uint64_t>> peaks;  // by machine
  while (PeakOf(job) != 0) {
    for (const int machine : {0, 1})
      for (const pid_t process : ProcessesOf(workshop_ / "two", machine))
        if (const uint64_t now = PeakOf(process)) peaks[machine][process] = now;
    ::usleep(20'000);
  }
  ASSERT_EQ(WaitProcess(job), 0);
  for (const int machine : {0, 1}) {
    uint64_t all = 0;
    for (const auto& [process, peak] : peaks[machine]) all += peak;
    const double estimate = Estimate("two", fmt::format("machine {}: ", machine));
    EXPECT_NEAR(Gib(all), estimate, 0.05 * estimate) << machine;
  }
}

}  // namespace
}  // namespace nxdkit::test
