// --into on file systems without exchange of names, without locks, or where folders cannot be
// renamed; ended at every step that changes a name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "tests/tools/convert_workshop.h"
#include "tests/tools/kill.h"

#ifdef NXDKIT_SHIM
namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

struct SharedCase {
  const char* name;
  bool plain;     // `weights` is a plain folder, as from other writers
  Words answers;  // of the file system
  bool one_step;  // readers never find `weights` missing
};

class IntoShared : public ::testing::TestWithParam<SharedCase> {
 protected:
  // The bundle of the first model, before each run.
  void Prepare() const {
    fs::remove_all(bundle_);
    fs::copy(whole_, bundle_, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    if (!GetParam().plain) return;
    fs::remove(weights_);
    fs::rename(checkpoint_ + "/.weights.0", weights_);
  }
  ProcessResult Run(const std::string& model, Words more = {}) const {
    Words environment = GetParam().answers;
    environment.push_back("LD_PRELOAD=" NXDKIT_SHIM);
    environment.insert(environment.end(), more.begin(), more.end());
    return RunProcess({Workshop::Tool("nxd-convert"), "--no-sync", "--from", "hf", "--to",
                       "rollout", "--into", "-j", "1", model, bundle_},
                      environment);
  }
  bool Equals(const std::string& model) const {
    return Workshop::Verify(bundle_, "--against " + model).exit_code == 0;
  }

  const Workshop workshop_;
  const std::string first_ = workshop_.MakeModel("first", testing_util::TinyLlama(), "--seed 1");
  const std::string second_ = workshop_.MakeModel("second", testing_util::TinyLlama(), "--seed 2");
  const std::string whole_ = workshop_ / "whole";
  const std::string bundle_ = workshop_ / "bundle";
  const std::string checkpoint_ = bundle_ + "/checkpoint";
  const std::string weights_ = checkpoint_ + "/weights";

  void SetUp() override { ExpectConverts("--from hf --to rollout --tp 2", first_, whole_); }
};

TEST_P(IntoShared, KilledAtAnyStepLeavesAWholeVersion) {
  constexpr int kMostSteps = 200;
  int step = 1;
  for (int code = -1; code != 0 && step < kMostSteps; ++step) {
    SCOPED_TRACE("killed at step " + std::to_string(step));
    Prepare();
    const ProcessResult killed = Run(second_, {"SHIM_KILL=" + std::to_string(step)});
    code = killed.exit_code;
    ASSERT_TRUE(code == 0 || code == 128 + SIGKILL) << killed.err;
    ASSERT_TRUE(fs::exists(weights_) || !GetParam().one_step);
    ASSERT_TRUE(Equals(first_) || Equals(second_)) << "neither the old version nor the new one";
    const ProcessResult next = Run(second_);
    ASSERT_EQ(next.exit_code, 0) << next.err;
    ASSERT_TRUE(Equals(second_));
    ASSERT_TRUE(fs::is_symlink(weights_));
    ASSERT_FALSE(fs::exists(checkpoint_ + "/.weights.adopt"));
  }
  EXPECT_GT(step, 4) << "no step was seen";
  EXPECT_LT(step, kMostSteps);
}

// The names that --into leaves, including retired slots and files that readers may still have open.
TEST_P(IntoShared, LeavesNoLinksBehind) {
  Prepare();
  for (int step = 1; step < 12; ++step) Run(second_, {"SHIM_KILL=" + std::to_string(step)});
  ASSERT_EQ(Run(second_).exit_code, 0);
  const bool locks = GetParam().answers.back() != "SHIM_FLOCK=ENOSYS";
  for (const auto& entry : fs::directory_iterator(checkpoint_))
    EXPECT_TRUE(!entry.is_symlink() || entry.path() == weights_ || !locks) << entry.path();
}

const SharedCase kSharedCases[] = {
    {"PlainOnLustre", true, {"SHIM_EXCHANGE=EINVAL"}, false},
    {"PlainOnLustreWithoutLocks", true, {"SHIM_EXCHANGE=EINVAL", "SHIM_FLOCK=ENOSYS"}, false},
    {"PlainOnOverlay", true, {"SHIM_EXCHANGE=EXDEV"}, false},
    {"PlainOnALocalDisk", true, {"SHIM_NOTHING=1"}, true},
    {"LinkOnLustre", false, {"SHIM_EXCHANGE=EINVAL"}, true},
    {"LinkWithoutLocks", false, {"SHIM_EXCHANGE=EINVAL", "SHIM_FLOCK=ENOSYS"}, true},
    {"LinkOnALocalDisk", false, {"SHIM_NOTHING=1"}, true}};
INSTANTIATE_TEST_SUITE_P(All, IntoShared, ::testing::ValuesIn(kSharedCases),
                         [](const auto& row) { return std::string(row.param.name); });

class IntoPlain : public IntoShared {};
INSTANTIATE_TEST_SUITE_P(All, IntoPlain, ::testing::Values(kSharedCases[0]),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(IntoPlain, SaysWhatReadersMaySeeMeanwhile) {
  Prepare();
  const ProcessResult first = Run(second_);
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_THAT(first.out, HasSubstr("note: weights was a plain folder and is a link now"));
  const ProcessResult second = Run(first_);
  EXPECT_THAT(second.out, Not(HasSubstr("plain folder")));
}

TEST_P(IntoPlain, AFolderOfAnImageIsRefusedBeforeAnythingIsWritten) {
  Prepare();
  const Tree before = ReadTree(bundle_);
  const ProcessResult result = Run(second_, {"SHIM_EXCHANGE=EXDEV", "SHIM_FOLDERS=EXDEV"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("comes from a lower layer of an overlay"));
  EXPECT_THAT(result.err, HasSubstr("ln -s .weights.0 weights"));
  Tree after = ReadTree(bundle_);
  after.erase("checkpoint/.weights.lock");
  EXPECT_TRUE(after == before);
}

TEST_P(IntoPlain, WithoutLocksASecondWriterIsSeenByItsMark) {
  Prepare();
  const Words no_locks = {"SHIM_FLOCK=ENOSYS"};
  ASSERT_EQ(Run(second_, no_locks).exit_code, 0);
  fs::create_directory(checkpoint_ + "/.weights.7");
  std::ifstream boot_file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(boot_file, boot);
  struct stat space;
  ASSERT_EQ(stat("/proc/self/ns/pid", &space), 0);
  std::istringstream words(testing_util::ProcStat("/proc/self"));
  std::string start;
  for (int i = 3; i <= 22; ++i) words >> start;
  const std::string me = "host " + boot + "/" + std::to_string(space.st_ino) + " ";
  const auto mark = [&](const std::string& pid_and_start) {
    workshop_.Write("bundle/checkpoint/.weights.7/.incomplete", me + pid_and_start + "\n");
  };
  mark(std::to_string(getpid()) + " " + start);
  const ProcessResult busy = Run(first_, no_locks);
  EXPECT_EQ(busy.exit_code, 5);
  EXPECT_THAT(busy.err, HasSubstr("another process is refreshing this bundle (pid " +
                                  std::to_string(getpid()) + " on host)"));
  EXPECT_TRUE(Equals(second_));
  mark(std::to_string(getpid()) + " 1");  // a process that has ended
  const ProcessResult free = Run(first_, no_locks);
  EXPECT_EQ(free.exit_code, 0) << free.err;
  EXPECT_TRUE(Equals(first_));
}

}  // namespace
}  // namespace nxdkit::test
#endif
