// The shell scripts of the project: clean under shellcheck, and honest about wrong options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/process.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Scripts() {
  const std::string root = NXDKIT_SOURCE_DIR;
  std::vector<std::string> scripts = {root + "/.ci/run"};
  for (const char* folder : {"/tools", "/tests", "/bench", "/man", "/testdata"}) {
    if (!fs::exists(root + folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root + folder))
      if (entry.path().extension() == ".sh") scripts.push_back(entry.path().string());
  }
  return scripts;
}

TEST(Scripts, PassShellcheck) {
  const std::vector<std::string> scripts = Scripts();
  EXPECT_GE(scripts.size(), 4u) << "the tree was not found";
  for (const std::string& script : scripts) {
    const ProcessResult result =
        RunProcess({"shellcheck", "-x", "-P", NXDKIT_SOURCE_DIR, "--", script});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
}

TEST(Scripts, QuickStartRefusesAnUnknownOption) {
  const ProcessResult result =
      RunProcess({"bash", NXDKIT_SOURCE_DIR "/tools/quickstart.sh", "--smal"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, ::testing::StartsWith("quickstart.sh: unknown option --smal\n"));
}

}  // namespace
}  // namespace nxdkit::test
