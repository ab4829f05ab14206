// kill -9 at any moment of a refresh: the bundle opens as the old version or the new one, under the
// engines' path, and the next refresh succeeds.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <string>

#include "tests/tools/convert_workshop.h"
#include "tests/tools/kill.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct KillCase {
  const char* name;
  bool first_use;  // `weights` is a plain folder, else a link and two slots
  const char* options;
};

class IntoKill : public ::testing::TestWithParam<KillCase> {
 protected:
  void SetUp() override {
    TinyModel big = testing_util::TinyQwen3();
    big.hidden = 256;
    big.vocab = 16384;
    models_[0] = workshop_.MakeModel("first", big, "--seed 1");
    models_[1] = workshop_.MakeModel("second", big, "--seed 2");
    for (int i : {0, 1}) {
      const std::string whole = workshop_ / ("whole" + std::to_string(i));
      ExpectConverts("--from hf --to rollout --tp 4", models_[i], whole);
      trees_[i] = ReadTree(whole + "/checkpoint/weights");
    }
    ExpectConverts("--from hf --to rollout --tp 4", models_[0], bundle_);
    const auto start = Clock::now();
    Prepare();
    if (!GetParam().first_use) {
      ExpectConverts(Options(), models_[1], bundle_);
      ExpectConverts(Options(), models_[0], bundle_);
    }
    duration_ = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
    if (!GetParam().first_use) duration_ /= 2;
  }
  std::string Options() const {
    return std::string("--from hf --to rollout --into ") + GetParam().options;
  }
  // A bundle before its first refresh.
  void Prepare() const {
    if (!GetParam().first_use) return;
    fs::remove_all(bundle_);
    ExpectConverts("--from hf --to rollout --tp 4", models_[0], bundle_);
    fs::remove(weights_);  // like other writers
    fs::rename(bundle_ + "/checkpoint/.weights.0", weights_);
  }
  // Which of the two models is at the engine's path; -1: neither, or a mix.
  int Holds() const {
    Tree found = ReadTree(weights_ + "/");
    found.erase("version.json");
    return found == trees_[0] ? 0 : found == trees_[1] ? 1 : -1;
  }

  void KillAtRandom(int times, uint32_t seed) {
    std::mt19937 random(seed);
    KillMoments moments(duration_ * 12 / 10, seed);
    int held = 0;
    for (int i = 0; moments.GoesOn(i, times); ++i) {
      Prepare();
      if (GetParam().first_use) held = 0;
      const std::chrono::microseconds delay = moments.Next();
      SCOPED_TRACE("killed after " + std::to_string(delay.count()) + " us");
      Words words = {Workshop::Tool("nxd-convert"), "--no-sync"};
      for (const std::string& word : Split(Options())) words.push_back(word);
      words.push_back(models_[1 - held]);
      words.push_back(bundle_);
      moments.Note(RunAndSignal(words, SIGKILL, delay) == 128 + SIGKILL);
      const int now = Holds();
      ASSERT_NE(now, -1) << "neither the old version nor the new one";
      ASSERT_EQ(Workshop::Verify(bundle_, "--against " + models_[now]).exit_code, 0);
      held = now;
      if (random() % 2 == 0) continue;  // one kill after another
      ExpectConverts(Options(), models_[1 - held], bundle_);
      held = 1 - held;
      ASSERT_EQ(Holds(), held);
    }
    EXPECT_GT(moments.killed(), 0) << "no kill came in time";
    ExpectConverts(Options(), models_[1 - held], bundle_);
    ExpectConverts(Options(), models_[held], bundle_);
    EXPECT_EQ(Holds(), held);
    // Nothing accumulates: two slots, the link, the lock.
    EXPECT_EQ(std::distance(fs::directory_iterator(bundle_ + "/checkpoint"), {}), 4);
  }

  const Workshop workshop_;
  const std::string bundle_ = workshop_ / "bundle";
  const std::string weights_ = bundle_ + "/checkpoint/weights";
  std::string models_[2];
  Tree trees_[2];
  std::chrono::microseconds duration_{};
};

TEST_P(IntoKill, LeavesAWholeVersion) { KillAtRandom(8, 1); }

using SlowIntoKill = IntoKill;
TEST_P(SlowIntoKill, LeavesAWholeVersion) { KillAtRandom(80, 2); }

const KillCase kCases[] = {{"FirstUse", true, "-j 2"},
                           {"Again", false, "-j 2"},
                           {"AgainVerified", false, "-j 1 --verify"}};
std::string CaseName(const ::testing::TestParamInfo<KillCase>& row) { return row.param.name; }
INSTANTIATE_TEST_SUITE_P(All, IntoKill, ::testing::ValuesIn(kCases), CaseName);
INSTANTIATE_TEST_SUITE_P(All, SlowIntoKill, ::testing::ValuesIn(kCases), CaseName);

}  // namespace
}  // namespace nxdkit::test
