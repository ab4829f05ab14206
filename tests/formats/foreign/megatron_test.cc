// Checkpoints of the real Megatron-Core, compared with the tensors that were put into it:
// testdata/megatron/SOURCES.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "tests/formats/foreign/stored_runs.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using artifact::InputHints;
using testing_util::ExpectRun;
using testing_util::ReadBytes;
using testing_util::Unpacked;

const std::string kMegatronFixtures = NXDKIT_TESTDATA "/megatron/fixtures.tar.zst";

class MegatronFixture : public ::testing::TestWithParam<const char*> {};

TEST_P(MegatronFixture, HasWhatWasPutIn) {
  const std::string name = GetParam();
  const nlohmann::json cases =
      nlohmann::json::parse(ReadBytes(Unpacked(kMegatronFixtures) + "/expected.json"))["cases"];
  ASSERT_TRUE(cases.contains(name));
  ExpectRun(Unpacked(kMegatronFixtures) + "/" + name, {}, cases[name],
            cases[name].contains("optimizer"));
}

std::string MegatronName(const ::testing::TestParamInfo<const char*>& row) {
  std::string name = row.param;
  for (char& c : name)
    if (c == '-' || c == '.') c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Megatron, MegatronFixture,
                         ::testing::Values("deepseek-pp3-te", "llama-tp1", "llama-tp2-0.15",
                                           "llama-tp2-pp2", "mixtral-ep2-local",
                                           "qwen2-tp2-numbered-verl1", "qwen3-dp2-plain",
                                           "qwen3-pp2-dp2-buckets", "qwen3-tp2-0.19",
                                           "qwen3-tp2-dp2-flat-0.13",
                                           "qwen3-tp2-dp2-reshardable-verl2", "qwen3-tp2-singleton",
                                           "qwen3moe-tp2-ep2-te"),
                         MegatronName);

// Runs of the real program, drawn by seeds (tests/interop/megatron_generated.sh makes them anew).
TEST(Megatron, GeneratedRunsHaveWhatWasPutIn) {
  const std::string folder = Unpacked(NXDKIT_TESTDATA "/megatron/generated.tar.zst");
  const nlohmann::json runs =
      nlohmann::json::parse(ReadBytes(NXDKIT_TESTDATA "/megatron/generated.json"));
  EXPECT_GE(runs.size(), 40u);
  for (const auto& [name, run] : runs.items()) {
    SCOPED_TRACE(name + ": " + run["what"].get<std::string>());
    const testing_util::Scratch scratch;
    InputHints hints;
    hints.config_if_none = scratch.Write("config.json", run["config"].dump());
    const bool with_state = run["optimizer"].is_string();
    ExpectRun(folder + "/" + run["folder"].get<std::string>(), hints, run, with_state);
  }
}

}  // namespace
}  // namespace nxdkit
