// Rewards of other programs: small shell scripts that follow the protocol or break it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/lib/processes.h"
#include "trainer/reward/reward.h"

namespace nxdkit::trainer {
namespace {

using testing_util::Ends;
using testing_util::Eventually;
using testing_util::Runs;

class ExecReward : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "exec-reward-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    reward_.reset();
    // No test may leave a child, alive or dead.
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
    std::filesystem::remove_all(folder_);
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  void Make(const std::string& script, double timeout_s = 60) {
    std::ofstream(Path("reward.sh")) << script;
    auto made = MakeReward("exec:sh '" + Path("reward.sh") + "'", {{"timeout_s", timeout_s}});
    ASSERT_TRUE(made.ok()) << made.error().ToString();
    reward_ = *std::move(made);
  }

  Result<std::vector<Scores>> Score(size_t samples) {
    std::vector<RewardSample> batch(samples, {"a \"b\"\n\xff", 3, "5"});
    bad_.reset();
    return reward_->Score(batch, {.poll = nullptr, .progress = nullptr, .bad = [&](size_t sample) {
                                    bad_ = sample;
                                  }});
  }

  void ExpectError(size_t samples, Errc code, const std::string& member,
                   const std::string& message) {
    const auto scores = Score(samples);
    ASSERT_FALSE(scores.ok());
    EXPECT_EQ(scores.error().code(), code);
    EXPECT_EQ(scores.error().member(), member);
    EXPECT_EQ(bad_ ? "sample " + std::to_string(*bad_) : "", member);
    EXPECT_NE(scores.error().message().find(message), std::string::npos)
        << scores.error().message();
    EXPECT_NE(scores.error().file().find("sh"), std::string::npos);
  }

  std::string folder_;
  std::unique_ptr<Reward> reward_;
  std::optional<size_t> bad_;
};

// Answers every line with the number of lines so far.
constexpr char kCount[] =
    "n=0\nwhile IFS= read -r line; do n=$((n+1)); "
    "echo \"{\\\"overall\\\": $n, \\\"half\\\": 0.5}\"; done\n";

TEST_F(ExecReward, OneAnswerPerSampleFromOneProgram) {
  Make(kCount);
  auto scores = Score(3);
  ASSERT_TRUE(scores.ok()) << scores.error().ToString();
  ASSERT_EQ(scores->size(), 3u);
  EXPECT_EQ((*scores)[2], (Scores{{"half", .5}, {"overall", 3}}));
  scores = Score(2);
  ASSERT_TRUE(scores.ok());
  EXPECT_EQ((*scores)[1].at("overall"), 5) << "the program stays from batch to batch";
  ASSERT_TRUE(Score(0).ok());
}

TEST_F(ExecReward, WhatTheProgramIsGiven) {
  Make("while IFS= read -r line; do printf '%s\\n' \"$line\" >> '" + Path("seen") +
       "'; echo '{\"overall\": 1}'; done\n");
  ASSERT_TRUE(Score(1).ok());
  std::string line;
  std::getline(std::ifstream(Path("seen")), line);
  EXPECT_EQ(
      line,
      "{\"response\":\"a \\\"b\\\"\\n\\ufffd\",\"response_length\":3,\"ground_truth\":\"5\"}");
}

TEST_F(ExecReward, BatchesLargerThanAnyPipe) {
  Make("while IFS= read -r line; do echo \"{\\\"overall\\\": 1, \\\"a\\\": 0.25}\"; done\n");
  const std::string response(2000, 'x');
  const std::vector<RewardSample> batch(300, {response, 3, "5"});
  const auto scores = reward_->Score(batch);
  ASSERT_TRUE(scores.ok()) << scores.error().ToString();
  EXPECT_EQ(scores->size(), 300u);
}

TEST_F(ExecReward, StartedAgainWhenItEndedBetweenBatches) {
  Make("echo run >> '" + Path("runs") +
       "'\nfor i in 1 2; do IFS= read -r line; echo '{\"overall\": 1}'; done\n");
  for (int batch = 0; batch < 5; ++batch) {
    const auto scores = Score(2);
    ASSERT_TRUE(scores.ok()) << batch << scores.error().ToString();
  }
  std::ifstream runs(Path("runs"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(runs), {}), "run\nrun\nrun\nrun\nrun\n");
}

TEST_F(ExecReward, DiesWithinABatch) {
  Make("IFS= read -r line\necho '{\"overall\": 1}'\necho 'no module named x' >&2\nexit 3\n");
  ExpectError(2, Errc::kIo, "",
              "the reward program exited with 3 after 1 of 2 answers; its standard error: no "
              "module named x");
}

TEST_F(ExecReward, DiesBeforeItReads) {
  Make("exec 0<&-\nkill -9 $$\n");
  ExpectError(200, Errc::kIo, "", "the reward program was killed by signal 9 after 0 of 200");
}

TEST_F(ExecReward, NobodyReadsAndNoSignalComes) {
  Make("exec 0<&-\necho hello >&2\nexit 0\n");
  const std::string response(200000, 'x');
  const std::vector<RewardSample> batch(3, {response, 3, "5"});
  const auto scores = reward_->Score(batch);
  ASSERT_FALSE(scores.ok());
  EXPECT_NE(scores.error().message().find("exited with 0 after 0 of 3 answers"), std::string::npos);
}

// The deadline includes the start of the shell, on a busy machine too.
TEST_F(ExecReward, TakesTooLong) {
  Make("IFS= read -r line\necho '{\"overall\": 1}'\necho waiting >&2\nsleep 1000\n", 2);
  ExpectError(2, Errc::kLimit, "",
              "the reward program gave 1 of 2 answers within 2 seconds, and was killed");
}

TEST_F(ExecReward, BadAnswersNameTheSample) {
  struct Case {
    const char* answer;
    const char* message;
  };
  const Case cases[] = {
      {"hello", "its answer is not JSON"},
      {"", "its answer is not JSON"},
      {"[1]", "its answer is an array, expected an object"},
      {"{\"accuracy\": 1}", "its answer has no \"overall\": {\"accuracy\":1}"},
      {"{\"overall\": NaN}", "its overall is nan, expected a finite number"},
      {"{\"overall\": 1, \"x\": -Infinity}", "its x is -inf, expected a finite number"},
      {"{\"overall\": \"1\"}", "its overall is a string, expected a number"},
  };
  for (const Case& one : cases) {
    Make(std::string("IFS= read -r l\necho '{\"overall\": 1}'\nIFS= read -r l\necho '") +
         one.answer + "'\ncat > '/dev/null'\n");
    ExpectError(2, Errc::kCorrupt, "sample 1", one.message);
  }
}

TEST_F(ExecReward, TooManyAnswers) {
  Make("while IFS= read -r line; do printf '{\"overall\": 1}\\n{\"overall\": 1}\\n'; done\n");
  ExpectError(1, Errc::kCorrupt, "", "the reward program wrote more than 1 answers to 1 samples");
}

TEST_F(ExecReward, ABadAnswerIsNotWaitedFor) {
  Make("echo 'loading the judge'\nsleep 1000\n");
  ExpectError(2, Errc::kCorrupt, "sample 0", "its answer is not JSON");
}

TEST_F(ExecReward, EndlessAnswers) {
  Make("IFS= read -r line\nyes '{\"overall\": 1}'\n");
  ExpectError(3, Errc::kCorrupt, "", "the reward program wrote more than 3 answers to 3 samples");
}

TEST_F(ExecReward, AnswersWithoutReadingAll) {
  Make("exec 0<&-\necho '{\"overall\": 1}'\necho '{\"overall\": 2}'\nsleep 0.2\n");
  const std::string response(200000, 'x');
  const std::vector<RewardSample> batch(2, {response, 3, "5"});
  const auto scores = reward_->Score(batch);
  ASSERT_TRUE(scores.ok()) << scores.error().ToString();
  EXPECT_EQ(scores->at(1).at("overall"), 2);
}

TEST_F(ExecReward, AnEndlessLine) {
  Make("IFS= read -r line\ncat /dev/zero | tr '\\0' x\n");
  ExpectError(2, Errc::kCorrupt, "sample 0", "its answer is longer than the limit of 1048576");
}

TEST_F(ExecReward, GoesOnAfterAnError) {
  Make("if [ -e '" + Path("second") + "' ]; then " + kCount + "else : > '" + Path("second") +
       "'; echo oops; fi\ncat > /dev/null\n");
  ASSERT_FALSE(Score(1).ok());
  const auto scores = Score(1);
  ASSERT_TRUE(scores.ok()) << scores.error().ToString();
}

TEST_F(ExecReward, WhatItStartedEndsWithIt) {
  Make("sleep 1000 &\necho $! > '" + Path("pid") + "'\n" + kCount);
  ASSERT_TRUE(Score(1).ok());
  pid_t pid = 0;
  std::ifstream(Path("pid")) >> pid;
  ASSERT_GT(pid, 0);
  EXPECT_TRUE(Runs(pid));
  reward_.reset();
  EXPECT_TRUE(Ends(pid));
}

TEST_F(ExecReward, TellsHowFarItIs) {
  Make(kCount);
  std::vector<size_t> told;
  const std::vector<RewardSample> batch(3, {"a", 1, "5"});
  const auto scores =
      reward_->Score(batch, {.poll = {}, .progress = [&](size_t done) { told.push_back(done); }});
  ASSERT_TRUE(scores.ok()) << scores.error().ToString();
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_EQ(told.back(), 3u);
}

// The program does not answer, has started another one, and ignores polite signals.
TEST_F(ExecReward, AnInterruptionEndsItAtOnce) {
  Make("trap '' TERM\nsleep 1000 &\necho $! > '" + Path("pid") + "'\nIFS= read -r line\nmkdir '" +
       Path("asked") + "'\nwait\n");
  int64_t polls = 0;
  const ScoreHooks hooks = {.poll = [&]() -> Status {
                              ++polls;
                              if (!std::filesystem::exists(Path("asked"))) return OkStatus();
                              return Error(Errc::kInterrupted, "enough");
                            },
                            .progress = {}};
  const std::vector<RewardSample> batch(2, {"a", 1, "5"});
  const auto scores = reward_->Score(batch, hooks);
  ASSERT_FALSE(scores.ok());
  EXPECT_EQ(scores.error().code(), Errc::kInterrupted);
  EXPECT_EQ(scores.error().message(), "enough");
  EXPECT_GT(polls, 0);
  pid_t pid = 0;
  std::ifstream(Path("pid")) >> pid;
  ASSERT_GT(pid, 0);
  EXPECT_TRUE(Ends(pid));
}

// The process that ends the program's children exists before the program gets its first sample.
TEST_F(ExecReward, NothingOutlivesATrainerThatIsKilled) {
  Make("IFS= read -r line\nsleep 1000 &\necho $$ > '" + Path("program") + "'\necho $! > '" +
       Path("started") + "'\nmkdir '" + Path("ready") + "'\nwhile :; do sleep 1000; done\n");
  const pid_t trainer = ::fork();
  if (trainer == 0) {
    (void)Score(1);
    ::_exit(1);
  }
  EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(Path("ready")); }));
  ::kill(trainer, SIGKILL);
  ASSERT_EQ(::waitpid(trainer, nullptr, 0), trainer);
  for (const char* name : {"program", "started"}) {
    pid_t pid = 0;
    std::ifstream(Path(name)) >> pid;
    ASSERT_GT(pid, 0) << name;
    EXPECT_TRUE(Ends(pid)) << name;
  }
}

TEST_F(ExecReward, AProgramThatIsNotThere) {
  const auto reward = MakeReward("exec:no-such-reward-program --x", {});
  ASSERT_FALSE(reward.ok());
  EXPECT_EQ(reward.error().code(), Errc::kNotFound);
  EXPECT_EQ(reward.error().file(), "no-such-reward-program");
}

TEST_F(ExecReward, AProgramThatCannotBeRun) {
  std::ofstream(Path("broken")) << "#!/no/such/interpreter\n";
  std::filesystem::permissions(Path("broken"), std::filesystem::perms::owner_all);
  auto reward = MakeReward("exec:" + Path("broken"), {});
  ASSERT_TRUE(reward.ok());
  reward_ = *std::move(reward);
  const auto scores = Score(1);
  ASSERT_FALSE(scores.ok());
  EXPECT_EQ(scores.error().code(), Errc::kNotFound);
  EXPECT_EQ(scores.error().file(), Path("broken"));
}

}  // namespace
}  // namespace nxdkit::trainer
