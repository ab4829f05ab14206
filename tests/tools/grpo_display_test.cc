// The output of grpo-train during training: the console, running_log/, and a reward that hangs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <regex>
#include <set>

#include "lib/base/text.h"
#include "tests/tools/grpo_workshop.h"
#include "tests/tools/kill.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class GrpoTrainTells : public GrpoTrain {
 protected:
  std::string Log(const std::string& name) const {
    return ReadFile(workshop_ / ("run/running_log/" + name));
  }
  // Answers one step, and hangs in the next with a program of its own.
  std::string HangingReward() const {
    const std::string script = workshop_.Write(
        "hang.sh",
        "n=0\nwhile read -r line; do\n  n=$((n + 1))\n  if [ $n = 600 ]; then\n"
        "    sleep 1000 &\n    echo $$ $! > \"$0.pids\"\n    mkdir \"$0.hangs\"\n    wait\n  fi\n"
        "  echo '{\"overall\": 0.5}'\ndone\n");
    return script;
  }
};

// The pids of the program and its child, as they wrote them.
std::vector<pid_t> PidsIn(const std::string& path) {
  std::ifstream file(path);
  std::vector<pid_t> pids;
  for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
  return pids;
}

bool AllEnd(const std::vector<pid_t>& pids) {
  return std::ranges::all_of(pids, testing_util::Ends);
}

TEST_F(GrpoTrainTells, TheRunningLogHasAllThatWasToldWithItsTime) {
  const Words words = {"trainer.save_freq=1", "trainer.save_limit=1", "trainer.val_freq=2"};
  Words first = words, second = words;
  first.push_back("trainer.max_steps=2");
  second.push_back("trainer.max_steps=3");
  ASSERT_EQ(Train("run", first).exit_code, 0);
  const ProcessResult rest = Train("run", second);
  ASSERT_EQ(rest.exit_code, 0) << rest.out;
  const std::string log = Log("trainer.log");
  for (const char* told :
       {"Z grpo-train ", " begins, process ", "Z memory: at most ", "Z step 1/2  gen\n",
        "Z step 1/2  reward ", "Z step 2/2  validation  ", "run/global_step_2\n",
        "run/global_step_1: trainer.save_limit is 1\n", "Z 2 steps done, in ", "Z resumed from ",
        "Z step 3/3  reward ", "Z 3 steps done, in "})
    EXPECT_THAT(log, HasSubstr(told));
  const std::regex time("20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z .*");
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(std::regex_match(line, time)) << line;
  // Everything shown to the user is in the log; a row of the table has more there.
  const std::regex row(" +(step|[0-9]+/[0-9]+) .*");
  std::istringstream told(rest.err);
  for (std::string line; std::getline(told, line);)
    EXPECT_TRUE(line.starts_with("grpo-train: ") || std::regex_match(line, row) ||
                log.find(line) != std::string::npos)
        << line;
  const std::string worker = Log("rollout_worker_0.log");
  EXPECT_EQ(std::ranges::count(worker, '\n'), 2) << worker;  // of each run
  EXPECT_THAT(worker, HasSubstr("Z rollout worker begins, process "));
  // A run may end with an error.
  const ProcessResult failed =
      Train("run", {"trainer.max_steps=9", "worker.reward.reward_function=exec:/bin/false"});
  EXPECT_EQ(failed.exit_code, 5) << failed.out;
  EXPECT_THAT(Log("trainer.log"),
              HasSubstr("Z error: /bin/false: the reward program exited with 1"));
  EXPECT_THAT(Log("trainer.log"), HasSubstr("Z hint: fix worker.reward.reward_function"));
}

TEST_F(GrpoTrainTells, AWorkerThatIsStartedAgainIsInTheLogs) {
  const pid_t trainer =
      StartProcess(Command("run", {"trainer.max_steps=5000", "trainer.save_freq=1"}));
  ASSERT_TRUE(WaitFor(workshop_ / "run/global_step_1"));
  for (const pid_t child : ChildrenOf(trainer)) ::kill(child, SIGKILL);
  // A worker that was answering when the trainer ended says so in a line of its own.
  const auto begun = [&] {
    const std::string log = Log("rollout_worker_0.log");
    return std::ranges::count_if(nxdkit::Split(log, '\n'), [](std::string_view line) {
      return line.find("rollout worker begins") != std::string_view::npos;
    });
  };
  EXPECT_TRUE(testing_util::Eventually([&] { return begun() >= 2; }));
  ::kill(trainer, SIGINT);
  EXPECT_EQ(WaitProcess(trainer), 130);
  EXPECT_THAT(Log("trainer.log"), HasSubstr("killed by signal 9; it is restarted"));
  EXPECT_THAT(Log("trainer.log"), HasSubstr("Z error: stopped by SIGINT"));
  EXPECT_EQ(begun(), 2) << Log("rollout_worker_0.log");
}

TEST_F(GrpoTrainTells, WithoutTheConsoleLoggerStepsAreNotPrinted) {
  const ProcessResult shown = Train("run", {"trainer.max_steps=1"});
  EXPECT_THAT(shown.err, testing::ContainsRegex("   step +reward .* left\n +1/1 +[0-9.]+ "));
  EXPECT_THAT(shown.err, Not(HasSubstr("gen"))) << "phases are for terminals";
  const ProcessResult silent = Train("silent", {"trainer.max_steps=1", "trainer.logger=[file]"});
  EXPECT_EQ(silent.exit_code, 0);
  EXPECT_THAT(silent.err, Not(testing::ContainsRegex("1/1 ")));
  EXPECT_THAT(silent.err, HasSubstr("memory: at most"));
  EXPECT_THAT(ReadFile(workshop_ / "silent/running_log/trainer.log"),
              HasSubstr("step 1/1  reward "));
  EXPECT_EQ(Steps("silent").size(), 1u);
  const ProcessResult failed = Train("silent", {"trainer.max_steps=2", "trainer.logger=[file]",
                                                "worker.reward.reward_function=exec:/bin/false"});
  EXPECT_THAT(failed.err, HasSubstr("the reward program exited with 1"));
}

// The times shown in the line while no sample had its reward.
std::set<std::string> TimesOfTheReward(const std::string& drawn) {
  const std::regex line("step 1/1  reward 0/512  ([0-9:]+)");
  std::set<std::string> times;
  for (std::sregex_iterator at(drawn.begin(), drawn.end(), line), end; at != end; ++at)
    times.insert((*at)[1]);
  return times;
}

// The reward answers once the line has advanced, or after a minute.
TEST_F(GrpoTrainTells, TheStatusLineGoesOnWithinAPhase) {
  const std::string slow = workshop_.Write(
      "slow.sh",
      "read -r line\nfor i in {1..600}; do [ -e \"$0.seen\" ] || sleep 0.1; done\n"
      "echo '{\"overall\": 0.5}'\nwhile read -r line; do echo '{\"overall\": 0.5}'; done\n");
  const ProcessResult result =
      RunOnTerminal(Command("run", {"trainer.max_steps=1", "data.max_response_length=60",
                                    "worker.rollout.neuron_override_config.seq_len=64",
                                    "worker.rollout.ignore_eos=true",
                                    "worker.reward.reward_function=exec:bash " + slow}),
                    {}, [&](const std::string& drawn) {
                      if (TimesOfTheReward(drawn).size() >= 3) workshop_.Write("slow.sh.seen", "");
                    });
  ASSERT_EQ(result.exit_code, 0) << result.out;
  EXPECT_GE(TimesOfTheReward(result.err).size(), 3u) << result.err;
  EXPECT_TRUE(std::regex_search(result.err, std::regex("gen [1-9][0-9]*/512  "))) << result.err;
}

TEST_F(GrpoTrainTells, AHangingRewardIsEndedBySigtermAndTheStepIsSaved) {
  const std::string script = HangingReward();
  const pid_t trainer = StartProcess(Command(
      "run", {"trainer.max_steps=5000", "worker.reward.reward_function=exec:bash " + script}));
  ASSERT_TRUE(WaitFor(script + ".hangs"));
  const std::vector<pid_t> pids = PidsIn(script + ".pids");
  ASSERT_EQ(pids.size(), 2u);
  const testing_util::Stopwatch since;
  ::kill(trainer, SIGTERM);
  EXPECT_EQ(WaitProcess(trainer), 143);
  EXPECT_LT(since.seconds(), 150) << "the reward has 300 s to answer: nobody waits for that";
  EXPECT_TRUE(AllEnd(pids));
  const Json tracker = Json::parse(ReadFile(workshop_ / "run/checkpoint_tracker.json"));
  EXPECT_EQ(tracker["last_global_step"], 1);
  EXPECT_THAT(Log("trainer.log"), HasSubstr("step 1 is saved"));
}

TEST_F(GrpoTrainTells, NothingOutlivesATrainerThatIsKilled) {
  const std::string script = HangingReward();
  const pid_t trainer = StartProcess(Command(
      "run", {"trainer.max_steps=5000", "worker.reward.reward_function=exec:bash " + script}));
  ASSERT_TRUE(WaitFor(script + ".hangs"));
  std::vector<pid_t> pids = PidsIn(script + ".pids");
  ASSERT_EQ(pids.size(), 2u);
  const std::vector<pid_t> children = ChildrenOf(trainer);
  EXPECT_EQ(children.size(), 3u) << "a worker, the reward, and who ends it";
  pids.insert(pids.end(), children.begin(), children.end());
  ::kill(trainer, SIGKILL);
  EXPECT_EQ(WaitProcess(trainer), 128 + SIGKILL);
  EXPECT_TRUE(AllEnd(pids));
}

// Found before anything is loaded, and with --dry-run.
TEST_F(GrpoTrainTells, AFolderThatCannotBeWrittenIsFoundFirst) {
  const ProcessResult in_a_file = Train("arithmetic/data/train.jsonl/run", {"--dry-run"});
  EXPECT_EQ(in_a_file.exit_code, 5) << in_a_file.out;
  EXPECT_THAT(JsonOf(in_a_file)["error"]["file"].get<std::string>(),
              testing::EndsWith("train.jsonl"));
  if (const std::string missing = MountsMissing(); !missing.empty()) GTEST_SKIP() << missing;
  const std::string folder = workshop_ / "read_only";
  for (const char* last : {"--dry-run", "--quiet"}) {
    std::string script =
        "mkdir -p '" + folder + "'\nmount -t tmpfs -o ro tmpfs '" + folder + "' || exit 77\nexec";
    for (const std::string& word : Command("read_only/run", {"trainer.max_steps=1", last}))
      script += " '" + word + "'";
    const ProcessResult result = RunProcess({"unshare", "-Urm", "bash", "-c", script});
    EXPECT_EQ(result.exit_code, 5) << result.out;
    const Json error = JsonOf(result)["error"];
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("Read-only file system"));
    EXPECT_EQ(error["file"], folder);
    EXPECT_THAT(result.err, Not(HasSubstr("memory: at most")));
  }
}

}  // namespace
}  // namespace nxdkit::test
