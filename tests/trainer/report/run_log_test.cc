// running_log/: lines with their time, continued, truncated by a crash, on a full disk.
#include "trainer/report/run_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "lib/system/file.h"
#include "tests/formats/scratch.h"

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// 2026-11-21 12:05:09 UTC, by `date -u +%s`.
constexpr int64_t kThen = 1795262709;

class RunningLog : public testing::Test {
 protected:
  RunLog Open() const {
    auto log = RunLog::Open(run_, [] { return kThen; });
    EXPECT_TRUE(log.ok()) << log.error().ToString();
    return *std::move(log);
  }
  std::string Text() const {
    const auto text = ReadSmallFile(path_, 1 << 20);
    EXPECT_TRUE(text.ok());
    return text.ok() ? *text : "";
  }

  const testing_util::Scratch folder_;
  const std::string run_ = folder_.Path("run");
  const std::string path_ = run_ + "/running_log/trainer.log";
};

TEST_F(RunningLog, EveryLineHasItsTimeAndARunThatIsGoneOnWithAddsToIt) {
  ASSERT_TRUE(Open().Line("two\nlines\n").ok());
  ASSERT_TRUE(Open().Line("a \x1b[2J name").ok());
  EXPECT_EQ(Text(),
            "2026-11-21T12:05:09Z two\n2026-11-21T12:05:09Z lines\n"
            "2026-11-21T12:05:09Z a \\x1b[2J name\n");
}

TEST_F(RunningLog, ALineThatACrashHasCutStaysALine) {
  ASSERT_TRUE(Open().Line("first").ok());
  std::ofstream(path_, std::ios::app) << "2026-11-21T12:05:10Z cu";
  ASSERT_TRUE(Open().Line("next").ok());
  EXPECT_THAT(Text(), HasSubstr("first\n2026-11-21T12:05:10Z cu\n2026-11-21T12:05:09Z next\n"));
}

TEST_F(RunningLog, WhatCannotBeMadeIsNamed) {
  std::filesystem::create_directories(run_);
  std::ofstream(run_ + "/running_log") << "a file";
  const auto log = RunLog::Open(run_);
  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.error().code(), Errc::kIo);
  EXPECT_THAT(log.error().file(), HasSubstr("run/running_log"));
}

TEST(WorkerLogs, AreOneForEach) {
  EXPECT_EQ(WorkerLogPaths("run", 2),
            (std::vector<std::string>{"run/running_log/rollout_worker_0.log",
                                      "run/running_log/rollout_worker_1.log"}));
}

// As on a full disk, for this process's files.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    before_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit lower{bytes, limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, before_);
  }

 private:
  rlimit limit_{};
  void (*before_)(int);
};

TEST_F(RunningLog, ADisplayGoesOnWithoutItAndSaysSoOnce) {
  std::string shown;
  RunDisplay display({.write = [&](std::string_view text) { shown += text; }});
  display.Line("before there was a log");
  display.LogTo(Open());
  {
    const FileLimit limit(60);
    display.Line("does not fit any more");
    display.Record("this one neither");
  }
  display.Line("fits again");
  EXPECT_EQ(Text(),
            "2026-11-21T12:05:09Z before there was a log\n2026-11-21T12:05:09Z fits again\n");
  const std::string complaint = "the run continues without its running_log: ";
  const size_t at = shown.find(complaint);
  ASSERT_NE(at, std::string::npos) << shown;
  EXPECT_EQ(shown.find(complaint, at + 1), std::string::npos) << shown;
  EXPECT_THAT(shown, StartsWith("before there was a log\ndoes not fit any more\n"));
  EXPECT_THAT(shown, HasSubstr("running_log/trainer.log: "));
  EXPECT_THAT(shown, HasSubstr("File too large"));
}

TEST_F(RunningLog, StepsThatAreNotShownAreLogged) {
  std::string shown;
  RunDisplay display({.write = [&](std::string_view text) { shown += text; }, .steps = false});
  display.LogTo(Open());
  display.BeginPhase(1, 10, "gen");
  display.Progress(1, 2);
  display.Step(1, 10, {{"timing_s/step", 2}, {"val/reward_score", 0.25}});
  display.Line("a note");
  display.Close();
  EXPECT_EQ(shown, "a note\n");
  EXPECT_THAT(Text(), HasSubstr("Z step 1/10  gen\n"));
  EXPECT_THAT(Text(), HasSubstr("Z step 1/10  left 0:18\n"));
  EXPECT_THAT(Text(), HasSubstr("Z step 1/10  validation  reward_score 0.2500\n"));
  EXPECT_THAT(Text(), HasSubstr("Z a note\n"));
}

}  // namespace
}  // namespace nxdkit::trainer
