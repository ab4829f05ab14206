// On Lustre and S3 every question about a path is a round trip: a command lists each folder of its
// input once, opens each file in it once, and tries no name that does not exist.
#include <map>
#include <sstream>

#include "tests/tools/convert_workshop.h"

#ifdef NXDKIT_FAIL_CALL
namespace nxdkit::test {
namespace {

// The number of each call that a command makes below a folder: "opendir /tmp/x/set/model" -> 1.
std::map<std::string, int> CallsBelow(const std::string& folder, const Words& command) {
  const TempFolder kept;
  const std::string log = kept.path() + "/calls";
  const ProcessResult result = RunProcess(
      command, {"LD_PRELOAD=" NXDKIT_FAIL_CALL, "FAIL_UNDER=" + folder, "FAIL_LOG=" + log});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::map<std::string, int> calls;
  std::istringstream lines(ReadFile(log));
  for (std::string line; std::getline(lines, line);) ++calls[line];
  return calls;
}

struct Asking {
  const char* name;
  const char* input;
  const char* words;
};
class AskedOnce : public ::testing::TestWithParam<Asking> {};

TEST_P(AskedOnce, IsWhatLiesInTheInput) {
  const Workshop shop;
  shop.MakeModel("model", testing_util::TinyLlama());
  ExpectConverts("--to nxd --tp 2", shop / "model", shop / "set");
  const std::string input = shop / GetParam().input;
  Words command = Split(GetParam().words);
  command.insert(command.begin(), Workshop::Tool("nxd-convert"));
  command.insert(command.end(), {input, shop / "out"});
  int listed = 0;
  int opened = 0;
  for (const auto& [call, count] : CallsBelow(input, command)) {
    listed += call.starts_with("opendir ");
    opened += call.starts_with("open ");
    if (call.starts_with("opendir ") || call.starts_with("open ")) {
      EXPECT_EQ(count, 1) << call;
    }
    EXPECT_TRUE(std::filesystem::exists(call.substr(call.find(' ') + 1))) << call;
  }
  EXPECT_GT(listed, 0);
  EXPECT_GT(opened, 1);
}

INSTANTIATE_TEST_SUITE_P(All, AskedOnce,
                         ::testing::Values(Asking{"HfToNxd", "model", "-j 1 --to nxd --tp 2"},
                                           Asking{"NxdToHf", "set", "-j 1 --to hf"},
                                           Asking{"NxdToRollout", "set",
                                                  "-j 1 --to rollout --tp 2 --bs 1 --seq 32"}),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace nxdkit::test
#endif
