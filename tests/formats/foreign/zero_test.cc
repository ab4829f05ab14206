// Folders of the real DeepSpeed, compared with the contents of its engines:
// testdata/zero/SOURCES.md.
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
using testing_util::ExpectError;
using testing_util::ExpectRun;
using testing_util::ReadBytes;
using testing_util::Unpacked;

const std::string kFixtures = NXDKIT_TESTDATA "/zero/fixtures.tar.zst";

nlohmann::json FixtureCases() {
  return nlohmann::json::parse(ReadBytes(Unpacked(kFixtures) + "/expected.json"))["cases"];
}

class ZeroFixture : public ::testing::TestWithParam<const char*> {};

TEST_P(ZeroFixture, HasWhatTheEngineHad) {
  const std::string name = GetParam();
  const nlohmann::json expected = FixtureCases()[name];
  ExpectRun(Unpacked(kFixtures) + "/" + name, {}, expected, expected["stage"] != 0);
  if (!expected.contains("universal") || !expected["universal"].is_string()) return;
  ExpectRun(Unpacked(kFixtures) + "/" + expected["universal"].get<std::string>(), {}, expected,
            true);
}

std::string CaseName(const ::testing::TestParamInfo<const char*>& row) {
  std::string name = row.param;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Zero, ZeroFixture,
                         ::testing::Values("stage0-f32-2", "stage1-bf16-2-bf16optimizer",
                                           "stage1-f32-2", "stage2-bf16-2-roundrobin",
                                           "stage2-bf16-3", "stage2-bf16-3-aligned",
                                           "stage2-bf16-3-odd", "stage2-f32-1",
                                           "stage2-f32-3-elastic", "stage3-bf16-3", "stage3-f32-2",
                                           "stage3-f32-3-odd"),
                         CaseName);

// The file does not record the order of the script's parameters.
TEST(Zero, TheNumbersOfStage0AreNotGuessed) {
  InputHints hints;
  hints.optimizer = true;
  const auto bound =
      kinds::OpenAndBind(Unpacked(kFixtures) + "/stage0-f32-2", &kinds::kZero, hints);
  ExpectError(bound, Errc::kUnsupported, "does not record which parameter a number is");
}

// Runs of the real program, drawn by seeds (tests/interop/zero_generated.sh makes them anew).
TEST(Zero, GeneratedRunsHaveWhatTheEnginesHad) {
  const std::string folder = Unpacked(NXDKIT_TESTDATA "/zero/generated.tar.zst");
  const nlohmann::json runs =
      nlohmann::json::parse(ReadBytes(NXDKIT_TESTDATA "/zero/generated.json"));
  EXPECT_GE(runs.size(), 40u);
  for (const auto& [name, run] : runs.items()) {
    SCOPED_TRACE(name + ": " + run["what"].get<std::string>());
    const std::string path = folder + "/" + run["folder"].get<std::string>();
    // A tensor left out of the folder is in no model.
    if (!run["excluded"].empty()) {
      const auto bound = kinds::OpenAndBind(path, &kinds::kZero, {});
      ASSERT_TRUE(bound.ok()) << bound.error().ToString();
      ExpectError(testing_util::DigestsOf(*bound), Errc::kCorrupt, "is stored nowhere");
      continue;
    }
    ExpectRun(path, {}, run, run["stage"] != 0, &kinds::kZero);
  }
}

}  // namespace
}  // namespace nxdkit
