// nxdkit-migrate(7): every command of the page, run in order on a small tag.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/formats/reshard/training_tag.h"
#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::StartsWith;

std::vector<std::string> Commands() {
  std::vector<std::string> commands;
  const std::string page = ReadFile(NXDKIT_SOURCE_DIR "/man/nxdkit-migrate.7");
  constexpr std::string_view kMark = "\n.Dl ";
  for (size_t at = 0; (at = page.find(kMark, at)) != std::string::npos;) {
    at += kMark.size();
    commands.push_back(page.substr(at, page.find('\n', at) - at));
  }
  return commands;
}

class Migrate : public ::testing::Test {
 protected:
  Migrate() {
    testing_util::TrainingTag tag;
    tag.geometry.tp = 2;
    tag.rounded = true;
    testing_util::WriteTrainingTag(shop_ / "tag", tag);
    EXPECT_EQ(
        Run("nxd-reshard --tp 8 --dp 4 --hw trn2 --qkv linear tag checkpoints/step_100").exit_code,
        0);
    fs::copy(shop_ / "tag/config.json", shop_ / "config.json");
  }

  ProcessResult Run(const std::string& command) const {
    return RunProcess(
        {"bash", "-c", "cd " + shop_.path() + " && PATH=" NXDKIT_TOOLS ":$PATH && " + command});
  }

  const Workshop shop_;
};

TEST_F(Migrate, EveryCommandOfThePageDoesWhatItSays) {
  const std::vector<std::string> commands = Commands();
  ASSERT_GT(commands.size(), 10u);
  std::vector<std::string> digests;
  for (const std::string& command : commands) {
    // TorchTitan's next checkpoint: here the same state, without the step between.
    if (command.find("titan/step-200") != std::string::npos &&
        !fs::exists(shop_ / "titan/step-200"))
      fs::copy(shop_ / "titan/step-100", shop_ / "titan/step-200");
    const ProcessResult result = Run(command);
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.out << result.err;
    if (command.starts_with("ckpt-diff --optimizer")) {
      EXPECT_THAT(result.out, StartsWith("equal: ")) << command;
    }
    if (command.starts_with("ckpt-digest"))
      digests.push_back(result.out.substr(0, result.out.find(' ')));
  }
  ASSERT_EQ(digests.size(), 2u);
  EXPECT_EQ(digests[0], digests[1]);
}

// The page's checks fail for a different moment.
TEST_F(Migrate, TheProofsSeeAMomentThatIsAnotherOne) {
  std::vector<std::string> proofs;
  for (const std::string& command : Commands()) {
    if (command.find("step-200") != std::string::npos) break;
    if (command.find("--verify") != std::string::npos) {
      EXPECT_EQ(Run(command).exit_code, 0);
    }
    if (command.find("--optimizer") != std::string::npos ||
        command.find("--resume") != std::string::npos)
      proofs.push_back(command);
  }
  ASSERT_EQ(proofs.size(), 2u);
  testing_util::TrainingTag other;
  other.geometry.tp = 2;
  other.rounded = true;
  other.change = [](testing_util::FileDraft& file) {
    if (!file.is_optimizer() || file.tp != 1) return;
    file.TensorOf(testing_util::FileDraft::At(file.State(0), "exp_avg_sq")).bytes[2] ^= 1;
  };
  testing_util::WriteTrainingTag(shop_ / "other", other);
  ASSERT_EQ(Run("nxd-convert --from nxd --to dcp --style torchtitan --mesh dp=4,tp=2 --force other "
                "titan/step-100")
                .exit_code,
            0);
  const ProcessResult diff = Run(proofs[0]);
  EXPECT_EQ(diff.exit_code, 1) << diff.out << diff.err;
  EXPECT_THAT(diff.out, ::testing::HasSubstr("model.embed_tokens.weight/exp_avg_sq"));
  EXPECT_EQ(Run(proofs[1]).exit_code, 2);
}

}  // namespace
}  // namespace nxdkit::test
