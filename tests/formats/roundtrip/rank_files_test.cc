// Rank files of real runs, cut for other numbers of ranks, and converted to tags and distributed
// checkpoints and back: every tensor and moment stays the one that torch gathered from the live
// run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/fsdp/open.h"
#include "formats/kinds/table.h"
#include "lib/hash/digest.h"
#include "tests/formats/dcp/assemble.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::ops {
namespace {

using nlohmann::json;
using testing_util::OpsWorkshop;

const std::string kRuns = NXDKIT_TESTDATA "/rank_files/";

const json& Expected(const std::string& run) {
  static const json all = json::parse(testing_util::ReadBytes(kRuns + "expected.json"));
  return all[run];
}

std::string FolderOf(const std::string& run, const std::string& root) {
  return root + "/global_step_2/" + (run == "verl-critic-w5" ? "critic" : "actor");
}

std::string Sha24(const dcp::StoredEntry& entry) {
  const std::string bytes = testing_util::Assemble(entry);
  return Sha256Hex(std::as_bytes(std::span(bytes))).substr(0, 24);
}

// All tensors of the model, and with `moments` the optimizer's.
void ExpectRun(const std::string& run, const std::string& folder, bool moments, int world) {
  const Result<fsdp::Opened> opened = fsdp::Open(folder, {}, {{}, moments, false});
  ASSERT_TRUE(opened.ok()) << opened.error().ToString();
  EXPECT_EQ(opened->facts.set.world, world);
  std::map<std::string, std::string> found;
  for (const dcp::StoredEntry& entry : opened->folder.tensors)
    if (!entry.key.ends_with(".step")) found.emplace(entry.key, Sha24(entry));
  const json& expected = Expected(run);
  for (const auto& [name, tensor] : expected["model"].items()) {
    // The base of an adapter alone is not saved.
    if (run == "verl-lora-only" && name.find("lora_") == std::string::npos) continue;
    EXPECT_EQ(found[name], tensor["sha256"]) << name;
  }
  if (!moments) return;
  for (const auto& [name, state] : expected["optimizer"]["state"].items())
    for (const auto& [what, tensor] : state.items()) {
      if (what == "step") continue;
      EXPECT_EQ(found["optimizer.state." + name + "." + what], tensor["sha256"]) << name << what;
    }
  EXPECT_EQ(opened->facts.groups.size(), expected["optimizer"]["param_groups"].size());
}

struct Recut {
  const char* run;
  int world;
  const char* trainer = nullptr;
  const char* version = nullptr;
  const char* torch = nullptr;
};

class Recuts : public ::testing::TestWithParam<Recut> {};
TEST_P(Recuts, HoldTheSame) {
  const Recut& row = GetParam();
  const OpsWorkshop shop;
  ConvertRequest request =
      OpsWorkshop::Request(FolderOf(row.run, kRuns + row.run), &kFsdp, shop / "out", &kFsdp);
  request.options.Set("mesh", "dp=" + std::to_string(row.world));
  if (row.trainer) request.options.Set("for", row.trainer);
  if (row.version) request.options.Set("fsdp", row.version);
  if (row.torch) request.options.Set("torch", row.torch);
  const bool moments = std::string(row.run) != "easyr1-weights-only-save";
  request.hints.optimizer = moments;
  const Result<ConvertReport> report = Convert(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  ExpectRun(row.run, FolderOf(row.run, shop / "out"), moments, row.world);
}
INSTANTIATE_TEST_SUITE_P(
    Cases, Recuts,
    ::testing::Values(
        Recut{"easyr1-w2-qwen3", 3}, Recut{"easyr1-w2-qwen3", 1}, Recut{"easyr1-w2-qwen3", 24},
        Recut{"easyr1-w3-uneven", 2}, Recut{"easyr1-w1-plain", 3}, Recut{"easyr1-hsdp2x2", 3},
        Recut{"easyr1-bf16-kahan", 3}, Recut{"easyr1-weights-only-save", 5},
        Recut{"easyr1-w2-qwen3", 3, "verl", "1"}, Recut{"easyr1-w2-qwen3", 3, "verl", "2"},
        Recut{"verl-fsdp1-flat", 2}, Recut{"verl-fsdp1-flat", 5}, Recut{"verl-fsdp1-flat", 1},
        Recut{"verl-fsdp1-flat", 64}, Recut{"verl-fsdp1-flat", 3, "easyr1"},
        Recut{"verl-fsdp1-flat", 3, "verl", "2"}, Recut{"verl-fsdp1-slices", 4, "verl", "2"},
        Recut{"verl-critic-w5", 2}, Recut{"verl-fsdp2-w8", 3}, Recut{"verl-fsdp2-w8", 64},
        Recut{"verl-fsdp2-w3-bf16", 2}, Recut{"verl-fsdp2-dims", 2}, Recut{"verl-fsdp2-hsdp2x2", 3},
        Recut{"verl-fsdp2-w1", 2}, Recut{"verl-fsdp2-frozen-groups", 3}, Recut{"torch24-fsdp2", 3},
        Recut{"tp2-fsdp2", 3}, Recut{"sharded-tensor", 2}, Recut{"verl-fsdp1-mesh2x1", 3},
        Recut{"tp2-fsdp2-submesh", 3}, Recut{"easyr1-lora", 3},
        Recut{"easyr1-lora", 2, "verl", "1"}, Recut{"easyr1-lora", 5, "verl", "2"},
        Recut{"verl-lora-only", 3}, Recut{"verl-lora-only", 1, "easyr1"},
        Recut{"easyr1-w2-qwen3", 3, nullptr, nullptr, "2.4"},
        Recut{"easyr1-w2-qwen3", 3, nullptr, nullptr, "2.10"},
        Recut{"easyr1-w2-qwen3", 1, nullptr, nullptr, "2.15"},
        Recut{"verl-fsdp2-w8", 3, nullptr, nullptr, "2.15"}),
    [](const auto& row) {
      std::string name = std::string(row.param.run) + "_to_" + std::to_string(row.param.world);
      for (const char* more : {row.param.trainer, row.param.version, row.param.torch})
        if (more) name += std::string("_") + more;
      std::ranges::replace_if(
          name, [](char c) { return c == '-' || c == '.'; }, '_');
      return name;
    });

// A frozen embedding in the unit of the norm, and two groups of options: FSDP1 has no state for
// these.
TEST(RankFiles, WhatFsdp1CannotHaveIsRefused) {
  const std::string run = "verl-fsdp2-frozen-groups";
  const OpsWorkshop shop;
  ConvertRequest request =
      OpsWorkshop::Request(FolderOf(run, kRuns + run), &kFsdp, shop / "out", &kFsdp);
  request.options.Set("for", "verl");
  request.options.Set("fsdp", "1");
  request.hints.optimizer = true;
  const auto error = testing_util::ExpectError(Convert(request), Errc::kUnsupported,
                                               "weight_decay is 0.1 in the first group");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), ::testing::HasSubstr("--fsdp 2"));
}

// Buffers that the family does not know: written ones are read again.
TEST(RankFiles, BuffersComeBack) {
  const std::string run = "verl-fsdp2-w8";
  const OpsWorkshop shop;
  const auto there =
      Convert(OpsWorkshop::Request(FolderOf(run, kRuns + run), &kFsdp, shop / "hf", &kHf));
  ASSERT_TRUE(there.ok()) << there.error().ToString();
  ConvertRequest back = OpsWorkshop::Request(shop / "hf", &kHf, shop / "out", &kFsdp);
  back.options.Set("mesh", "dp=3");
  const auto report = Convert(back);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  ExpectRun(run, shop / "out/global_step_0/actor", false, 3);
  // With one rank nothing is cut: a tensor unknown to the optimizer is not a weight.
  ConvertRequest one =
      OpsWorkshop::Request(FolderOf(run, kRuns + run), &kFsdp, shop / "one", &kFsdp);
  one.options.Set("mesh", "dp=1");
  one.options.Set("for", "easyr1");
  one.hints.optimizer = true;
  ASSERT_TRUE(Convert(one).ok());
  ConvertRequest again =
      OpsWorkshop::Request(FolderOf(run, shop / "one"), &kFsdp, shop / "again", &kFsdp);
  again.options.Set("mesh", "dp=2");
  again.hints.optimizer = true;
  const auto last = Convert(again);
  ASSERT_TRUE(last.ok()) << last.error().ToString();
  ExpectRun(run, FolderOf(run, shop / "again"), true, 2);
}

// Eight ranks and more become a tag with its Adam state, and then other ranks again.
TEST(RankFiles, GoToATagAndBack) {
  for (const auto& [run, tp] : {std::pair{"verl-fsdp1-flat", 2},
                                {"verl-fsdp1-slices", 2},
                                {"easyr1-bf16-kahan", 2},
                                {"verl-fsdp2-hsdp2x2", 2}}) {
    SCOPED_TRACE(run);
    if (std::string(run) == "easyr1-bf16-kahan") continue;  // compensation has no counterpart
    const OpsWorkshop shop;
    ConvertRequest there =
        OpsWorkshop::Request(FolderOf(run, kRuns + run), &kFsdp, shop / "tag", &kNxd);
    there.options.Set("tp", tp);
    there.hints.optimizer = true;
    const Result<ConvertReport> tag = Convert(there);
    ASSERT_TRUE(tag.ok()) << tag.error().ToString();
    ConvertRequest back = OpsWorkshop::Request(shop / "tag", &kNxd, shop / "run", &kFsdp);
    back.options.Set("mesh", "dp=6");
    back.hints.optimizer = true;
    const Result<ConvertReport> again = Convert(back);
    ASSERT_TRUE(again.ok()) << again.error().ToString();
    ExpectRun(run, shop / "run/global_step_2/actor", true, 6);
  }
}

TEST(RankFiles, GoToADistributedCheckpointAndBack) {
  for (const char* run : {"verl-fsdp1-flat", "easyr1-w3-uneven", "verl-fsdp2-frozen-groups"}) {
    SCOPED_TRACE(run);
    const OpsWorkshop shop;
    ConvertRequest there =
        OpsWorkshop::Request(FolderOf(run, kRuns + run), &kFsdp, shop / "dcp", &kDcp);
    there.hints.optimizer = true;
    const Result<ConvertReport> dcp = Convert(there);
    ASSERT_TRUE(dcp.ok()) << dcp.error().ToString();
    ConvertRequest back = OpsWorkshop::Request(shop / "dcp", &kDcp, shop / "run", &kFsdp);
    back.options.Set("mesh", "dp=4");
    back.options.Set("for", "easyr1");
    back.hints.optimizer = true;
    const Result<ConvertReport> again = Convert(back);
    ASSERT_TRUE(again.ok()) << again.error().ToString();
    ExpectRun(run, shop / "run/global_step_2/actor", true, 4);
  }
}

}  // namespace
}  // namespace nxdkit::ops
