// Rank files that the real programs wrote, in seven releases of torch: every tensor of the model
// and of the optimizer equals the one that torch itself gathered from the live run (expected.json).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "formats/fsdp/open.h"
#include "lib/hash/digest.h"
#include "tests/formats/dcp/assemble.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::fsdp {
namespace {

using nlohmann::json;
using testing_util::ExpectError;

const std::string kRuns = NXDKIT_TESTDATA "/rank_files/";

const json& Expected() {
  static const json all = json::parse(testing_util::ReadBytes(kRuns + "expected.json"));
  return all;
}

std::string FolderOf(const std::string& run) {
  const std::string step = kRuns + run + "/global_step_2/";
  return step + (run == "verl-critic-w5" ? "critic" : "actor");
}

std::string Sha24(const std::string& bytes) {
  return Sha256Hex(std::as_bytes(std::span(bytes))).substr(0, 24);
}

const dcp::StoredEntry* Find(const dcp::Folder& folder, const std::string& key) {
  for (const dcp::StoredEntry& entry : folder.tensors)
    if (entry.key == key) return &entry;
  return nullptr;
}

void ExpectTensor(const dcp::Folder& folder, const std::string& key, const json& expected) {
  const dcp::StoredEntry* entry = Find(folder, key);
  ASSERT_TRUE(entry) << key;
  EXPECT_EQ(entry->shape, expected["shape"].get<Shape>()) << key;
  EXPECT_EQ(TorchName(entry->dtype), expected["dtype"].get<std::string>()) << key;
  EXPECT_EQ(Sha24(testing_util::Assemble(*entry)), expected["sha256"]) << key;
}

class RankFiles : public ::testing::TestWithParam<std::string> {};

TEST_P(RankFiles, AreWhatTorchGathered) {
  const json& expected = Expected()[GetParam()];
  const bool has_optimizer = GetParam() != "easyr1-weights-only-save";
  Result<Opened> opened = Open(FolderOf(GetParam()), {}, {{}, has_optimizer, false});
  ASSERT_TRUE(opened.ok()) << opened.error().ToString();
  const dcp::Folder& folder = opened->folder;
  const bool adapter_only = GetParam() == "verl-lora-only";
  size_t seen = 0;
  for (const auto& [name, tensor] : expected["model"].items()) {
    if (adapter_only && name.find("lora_") == std::string::npos) continue;
    ExpectTensor(folder, name, tensor);
    ++seen;
  }
  EXPECT_EQ(opened->facts.tensors.size(), seen);
  EXPECT_EQ(opened->facts.set.world, expected["world"]);
  if (opened->facts.mesh) {
    EXPECT_EQ(opened->facts.mesh->shape, expected["mesh"].get<Shape>());
  }
  if (!has_optimizer) return;
  size_t kept = 0;
  for (const auto& [name, state] : expected["optimizer"]["state"].items())
    for (const auto& [what, tensor] : state.items()) {
      ++kept;
      const std::string key = "optimizer.state." + name + "." + what;
      if (what != "step") {
        ExpectTensor(folder, key, tensor);
        continue;
      }
      const dcp::StoredEntry* step = Find(folder, key);
      ASSERT_TRUE(step) << key;
      const auto value = ReadScalar(step->chunks.front().stored);
      ASSERT_TRUE(value.ok());
      EXPECT_EQ(*value, tensor["value"].get<double>()) << key;
    }
  EXPECT_EQ(folder.tensors.size(), seen + kept);
  std::vector<std::vector<std::string>> groups;
  for (const json& group : expected["optimizer"]["param_groups"])
    groups.push_back(group["params"].get<std::vector<std::string>>());
  EXPECT_EQ(opened->facts.groups, groups);
}

std::vector<std::string> Runs() {
  std::vector<std::string> runs;
  for (const auto& [name, run] : Expected().items())
    if (name != "local-flat") runs.push_back(name);
  return runs;
}

INSTANTIATE_TEST_SUITE_P(All, RankFiles, ::testing::ValuesIn(Runs()), [](const auto& run) {
  std::string name = run.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

struct Form {
  const char* run;
  OptimizerForm form;
};
TEST(OptimizerForms, AreTold) {
  for (const Form& row : {Form{"easyr1-w2-qwen3", OptimizerForm::kNames},
                          Form{"verl-fsdp2-w8", OptimizerForm::kNumbers},
                          Form{"verl-fsdp2-frozen-groups", OptimizerForm::kNumbers},
                          Form{"verl-fsdp1-flat", OptimizerForm::kFlatUnits},
                          Form{"verl-critic-w5", OptimizerForm::kFlatUnits},
                          Form{"verl-fsdp1-slices", OptimizerForm::kFlatParameters}}) {
    const Result<Opened> opened = Open(FolderOf(row.run), {}, {{}, true, false});
    ASSERT_TRUE(opened.ok()) << row.run << opened.error().ToString();
    EXPECT_EQ(opened->facts.form, row.form) << row.run;
  }
}

TEST(FlatParametersAlone, AreRefused) {
  ExpectError(Open(FolderOf("local-flat"), {}, {}), Errc::kUnsupported,
              "a flat parameter of an FSDP unit (LOCAL_STATE_DICT)");
}

}  // namespace
}  // namespace nxdkit::fsdp
