// ckpt-inspect on anything that users bring (anything/make.sh) reports what it is and what to do
// next, as in anything/table.txt: name, exit code, "model" where the weights are those of the plain
// model, and a part of the answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/tools/process.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Brought {
  std::string name, weights, part;
  int exit_code = 0;
};

std::vector<Brought> Rows() {
  std::vector<Brought> rows;
  std::ifstream table(NXDKIT_SOURCE_DIR "/tests/tools/anything/table.txt");
  for (Brought row; table >> row.name >> row.exit_code >> row.weights;) {
    std::getline(table >> std::ws, row.part);
    rows.push_back(row);
  }
  return rows;
}

std::string Tool(const std::string& name) { return NXDKIT_TOOLS "/" + name; }

class Anything : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    const ProcessResult made = RunProcess(
        {"bash", NXDKIT_SOURCE_DIR "/tests/tools/anything/make.sh", NXDKIT_TOOLS, folder_->path()});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string Path(const std::string& name) { return folder_->path() + "/" + name; }

  static TempFolder* folder_;
};
TempFolder* Anything::folder_ = nullptr;

TEST_F(Anything, IsToldWhatItIs) {
  for (const Brought& row : Rows()) {
    SCOPED_TRACE(row.name);
    const ProcessResult answer = RunProcess({Tool("ckpt-inspect"), Path(row.name)});
    EXPECT_EQ(answer.exit_code, row.exit_code) << answer.err;
    EXPECT_THAT(answer.out + answer.err, HasSubstr(row.part));
    EXPECT_LE(std::ranges::count(answer.err, '\n'), 4) << answer.err;
    EXPECT_LE(std::ranges::count(answer.out, '\n'), 50) << answer.out;
  }
}

// The names of the tensors may differ, and the files; the parameters do not.
TEST_F(Anything, HasTheModelsWeights) {
  const std::string digest = RunProcess({Tool("ckpt-digest"), Path("model")}).out;
  ASSERT_FALSE(digest.empty());
  for (const Brought& row : Rows()) {
    SCOPED_TRACE(row.name);
    if (row.weights != "model") continue;
    const ProcessResult found =
        RunProcess({Tool("ckpt-digest"), "--config", Path("model/config.json"), Path(row.name)});
    EXPECT_EQ(found.out, digest) << found.err;
  }
}

TEST_F(Anything, NamesTheNearestOfWhatIsNotThere) {
  const auto hint_of = [](const std::string& path) {
    const ProcessResult answer = RunProcess(
        {"bash", "-c", "cd \"$0\" && exec \"$1\" \"$2\"", Path(""), Tool("ckpt-inspect"), path});
    EXPECT_EQ(answer.exit_code, 3) << answer.err;
    return answer.err.substr(answer.err.find("hint: "));
  };
  EXPECT_EQ(hint_of("moodel"), "hint: did you mean model?\n");
  EXPECT_EQ(hint_of("nxd-root/stp_10"), "hint: did you mean nxd-root/step_10?\n");
  EXPECT_EQ(hint_of("nxd/zzz"), "hint: in nxd: step_10\n");
}

TEST_F(Anything, StandsInTheTable) {
  std::set<std::string> told, there;
  for (const Brought& row : Rows()) told.insert(row.name.substr(0, row.name.find('/')));
  for (const auto& entry : fs::directory_iterator(folder_->path()))
    there.insert(entry.path().filename());
  EXPECT_EQ(told, there);
  EXPECT_GE(there.size(), 120u);
}

}  // namespace
}  // namespace nxdkit::test
