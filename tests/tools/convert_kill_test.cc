// kill -9, Ctrl-C and a full disk at any moment: the output is absent, the old one or the new one,
// and the next run succeeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "lib/sinks/write_sink.h"
#include "tests/tools/convert_workshop.h"
#include "tests/tools/kill.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// Two models with the same shapes.
struct KilledModels {
  KilledModels(int hidden, int vocab) {
    TinyModel big = testing_util::TinyQwen3();
    big.hidden = hidden;
    big.intermediate = 3 * hidden;
    big.head_dim = 64;
    big.vocab = vocab;
    first = workshop.MakeModel("first", big, "--seed 1");
    second = workshop.MakeModel("second", big, "--seed 2");
  }
  Workshop workshop;
  std::string first;
  std::string second;
};
// 45 MB: writing takes so long that a signal arrives during it.
const KilledModels& TheModels() {
  static const auto models = std::make_unique<KilledModels>(512, 32768);
  return *models;
}
// 10 MB, for many kills at random moments: each costs four conversions and as many comparisons.
const KilledModels& TheSmallModels() {
  static const auto models = std::make_unique<KilledModels>(256, 16384);
  return *models;
}

struct Target {
  const char* name;
  const char* options;
  const char* before = "";  // makes the input of the model
};

class Kill : public ::testing::TestWithParam<std::tuple<Target, bool>> {
 protected:
  void SetUp() override {
    const std::string old_input = Input("first", TheSmallModels().first);
    input_ = Input("second", TheSmallModels().second);
    const auto start = Clock::now();
    ExpectConverts(options_, input_, new_);
    duration_ = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
    if (over_an_old_one_) ExpectConverts(options_, old_input, old_);
  }

  std::string Input(const std::string& name, const std::string& model) const {
    const std::string before = target_.before;
    if (before.empty()) return model;
    ExpectConverts(before, model, workshop_ / name);
    return workshop_ / name;
  }

  Words Command(bool resume) const {
    Words words = {Workshop::Tool("nxd-convert"), "--no-sync"};
    for (const std::string& word : Split(options_)) words.push_back(word);
    if (over_an_old_one_) words.push_back("--force");
    if (resume) words.push_back("--resume");
    words.push_back(input_);
    words.push_back(out_);
    return words;
  }

  // The output as it was before a run.
  void Restore() const {
    fs::remove_all(out_);
    fs::remove_all(out_ + ".partial");
    if (over_an_old_one_)
      fs::copy(old_, out_, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }

  void ExpectAbsentOldOrNew() const {
    if (!fs::exists(out_)) {
      EXPECT_FALSE(over_an_old_one_) << "the old output is gone";
      return;
    }
    const Tree found = ReadTree(out_);
    const bool is_new = found == ReadTree(new_);
    const bool is_old = over_an_old_one_ && found == ReadTree(old_);
    EXPECT_TRUE(is_new || is_old) << "neither the old output nor the new one";
  }

  void ExpectNextRunSucceeds(bool resume) const {
    const bool there = fs::exists(out_) && !over_an_old_one_;  // finished before the kill
    if (there) return;
    const ProcessResult result = RunProcess(Command(resume));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    ExpectSameTree(new_, out_);
    EXPECT_FALSE(fs::exists(out_ + ".partial"));
  }

  void KillAtRandom(int times, uint32_t seed) {
    std::mt19937 random(seed);
    KillMoments moments(duration_ * 11 / 10, seed);
    for (int i = 0; moments.GoesOn(i, times); ++i) {
      Restore();
      const std::chrono::microseconds delay = moments.Next();
      SCOPED_TRACE("killed after " + std::to_string(delay.count()) + " us");
      moments.Note(RunAndSignal(Command(false), SIGKILL, delay) == 128 + SIGKILL);
      ExpectAbsentOldOrNew();
      // A second kill while resuming, now and then.
      if (random() % 3 == 0) {
        RunAndSignal(Command(true), SIGKILL, delay / 2);
        ExpectAbsentOldOrNew();
      }
      ExpectNextRunSucceeds(random() % 2 == 0);
      if (HasFailure()) return;
    }
    EXPECT_GT(moments.killed(), 0) << "no kill came in time";
    // The next run removes the leftovers of a kill at the place of the old output.
    if (over_an_old_one_) ExpectNextRunSucceeds(false);
    EXPECT_FALSE(fs::exists(out_ + ".old.partial"));
  }

  const Target target_ = std::get<0>(GetParam());
  const bool over_an_old_one_ = std::get<1>(GetParam());
  const Workshop workshop_;
  const std::string options_ = std::string("-j 2 ") + target_.options;
  const std::string new_ = workshop_ / "new/out";  // torch writes the name into the file
  const std::string old_ = workshop_ / "old/out";
  const std::string out_ = workshop_ / "out";
  std::string input_;
  std::chrono::microseconds duration_{};
};

TEST_P(Kill, LeavesNothingHalf) { KillAtRandom(4, 1); }

using SlowKill = Kill;
TEST_P(SlowKill, LeavesNothingHalf) { KillAtRandom(40, 2); }

const Target kTargets[] = {
    {"Hf", "--from hf --to hf --max-shard-size 10MB"},
    {"Nxd", "--from hf --to nxd --tp 4 --hw trn1"},
    {"NxdXser", "--from hf --to nxd --tp 2 --xser"},
    {"Rollout", "--from hf --to rollout --tp 8"},
    {"Torch", "--from hf --to torch"},
    {"Dcp", "--from hf --to dcp --mesh dp=2,tp=2"},
    {"FromDcp", "--from dcp --to nxd --tp 2 --hw trn1", "--from hf --to dcp --chunks 3"}};
std::string KillName(const ::testing::TestParamInfo<std::tuple<Target, bool>>& row) {
  return std::string(std::get<0>(row.param).name) + (std::get<1>(row.param) ? "Over" : "");
}
INSTANTIATE_TEST_SUITE_P(All, Kill,
                         ::testing::Combine(::testing::ValuesIn(kTargets), ::testing::Bool()),
                         KillName);
INSTANTIATE_TEST_SUITE_P(All, SlowKill,
                         ::testing::Combine(::testing::ValuesIn(kTargets), ::testing::Bool()),
                         KillName);

// --- Ctrl-C

// The number of finished tasks, read from the journal; 0 without one.
int64_t DoneTasks(const std::string& staging) {
  std::ifstream journal(staging + "/" + std::string(WriteSink::kJournalName));
  int64_t done = 0;
  for (std::string line; std::getline(journal, line);) done += line.starts_with("t ");
  return done;
}

class Interrupt : public ::testing::TestWithParam<int> {};

TEST_P(Interrupt, EndsWithTheSignalsCodeAndResumes) {
  const Workshop workshop;
  const std::string out = workshop / "out";
  const std::string expected = workshop / "expected";
  const std::string options = "--from hf --to nxd --tp 8 --hw trn2 -j 1";
  const auto tasks = JsonOf(Workshop::Convert(options + " --json", TheModels().second, expected))
                         .at("tasks")
                         .get<int64_t>();
  const auto is_at_work = [&] {
    const int64_t done = DoneTasks(out + ".partial");
    return done > 0 && done < tasks;
  };
  Words words = {Workshop::Tool("nxd-convert"), "--no-sync"};
  for (const std::string& word : Split(options)) words.push_back(word);
  words.push_back(TheModels().second);
  words.push_back(out);
  // Repeated if this process slept until everything was written.
  int code = 0;
  for (int i = 0; i < 20 && (code != 128 + GetParam() || !is_at_work()); ++i) {
    fs::remove_all(out);
    fs::remove_all(out + ".partial");
    const pid_t child = StartProcess(words);
    while (!is_at_work() && testing_util::Runs(child)) std::this_thread::yield();
    kill(child, GetParam());
    code = WaitProcess(child);
  }
  ASSERT_EQ(code, 128 + GetParam()) << "no signal came in time";
  EXPECT_FALSE(fs::exists(out));
  const ProcessResult resumed =
      Workshop::Convert(options + " --resume --json", TheModels().second, out);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  const Json json = JsonOf(resumed);
  EXPECT_GT(json["resumed_tasks"], 0);
  EXPECT_LT(json["resumed_tasks"], json["tasks"]);
  ExpectSameTree(expected, out);
  EXPECT_FALSE(fs::exists(out + ".partial"));
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupt, ::testing::Values(SIGINT, SIGTERM),
                         [](const auto& row) {
                           return std::string(row.param == SIGINT ? "Sigint" : "Sigterm");
                         });

// The leftovers of an interrupted run with other options do not get into the output.
TEST(Resume, OtherOptionsStartAfresh) {
  const Workshop workshop;
  const std::string model = workshop.MakeModel("model", testing_util::TinyLlama());
  const std::string out = workshop / "out";
  workshop.Write("out.partial/model/dp_rank_00_tp_rank_07_pp_rank_00.pt", "of another run");
  workshop.Write("out.partial/.nxdkit-journal", "of another run");
  ExpectConverts("--from hf --to nxd --tp 2 --resume", model, out);
  ExpectConverts("--from hf --to nxd --tp 2", model, workshop / "fresh");
  ExpectSameTree(workshop / "fresh", out);
}

// --- no space

// Runs nxd-convert with its output on a file system of 8 MB; prints its exit code and the remaining
// files.
ProcessResult OnASmallDisk(const std::string& folder, const std::string& options) {
  const std::string script = "mount -t tmpfs -o size=8m tmpfs " + folder + " || exit 77\n" +
                             Workshop::Tool("nxd-convert") + " " + options + " " +
                             TheModels().first + " " + folder + "/out\n" + "echo exit $?; ls -A " +
                             folder;
  return RunProcess({"unshare", "-Urm", "bash", "-c", script});
}

TEST(FullDisk, EndsWithAHintAndLeavesNothing) {
  if (const std::string missing = MountsMissing(); !missing.empty()) GTEST_SKIP() << missing;
  for (const char* options :
       {"--from hf --to nxd --tp 2", "--from hf --to nxd --tp 2 --xser", "--from hf --to hf",
        "--from hf --to torch", "--from hf --to rollout --tp 8"}) {
    const Workshop workshop;
    const ProcessResult result = OnASmallDisk(workshop.path(), options);
    EXPECT_EQ(result.out, "exit 5\n") << options << result.err;
    EXPECT_THAT(result.err, HasSubstr("No space left on device")) << options;
    EXPECT_THAT(result.err, HasSubstr("hint:")) << options;
  }
}

// A limit on the size of files (ulimit -f) ends a process that does not handle it.
TEST(FullDisk, AFileSizeLimitIsAnErrorToo) {
  const Workshop workshop;
  const std::string out = workshop / "out";
  const ProcessResult result =
      RunProcess({"bash", "-c",
                  "ulimit -f 1000; " + Workshop::Tool("nxd-convert") +
                      " --from hf --to nxd --tp 2 " + TheModels().first + " " + out});
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("File too large"));
  EXPECT_FALSE(Traces(out));
}

}  // namespace
}  // namespace nxdkit::test
