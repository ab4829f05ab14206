// FSDP runs saved by accelerate and the Trainer of transformers: two checkpoints, read as one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "formats/dcp/accelerate.h"
#include "formats/fsdp/open.h"
#include "formats/kinds/table.h"
#include "formats/torch/archive.h"
#include "lib/hash/digest.h"
#include "tests/formats/dcp/assemble.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/scratch.h"

namespace nxdkit::ops {
namespace {

using nlohmann::json;
using testing_util::OpsWorkshop;
using testing_util::ReadBytes;

const std::string kAccelerate = NXDKIT_TESTDATA "/dcp/accelerate/";

std::string ShortDigest(const dcp::StoredEntry& entry) {
  const std::string bytes = testing_util::Assemble(entry);
  return Sha256Hex(std::as_bytes(std::span(bytes))).substr(0, 24);
}

class AccelerateFolder : public ::testing::TestWithParam<const char*> {
 protected:
  ConvertRequest To(const Kind* kind, const std::string& output) const {
    ConvertRequest request = OpsWorkshop::Request(kAccelerate + GetParam(), &kDcp, output, kind);
    request.hints.config = kAccelerate + "config.json";
    request.hints.optimizer = true;
    return request;
  }
};

TEST_P(AccelerateFolder, HoldsWhatTorchGathered) {
  const json expected = json::parse(ReadBytes(kAccelerate + "expected.json"))[GetParam()];
  const Result<dcp::Folder> folder = dcp::OpenAccelerate(kAccelerate + GetParam());
  ASSERT_TRUE(folder.ok()) << folder.error().ToString();
  std::map<std::string, std::string> found;
  for (const dcp::StoredEntry& entry : folder->tensors)
    found.emplace(entry.key, ShortDigest(entry));
  for (const auto& [name, parameter] : expected["parameters"].items()) {
    EXPECT_EQ(found["model." + name], parameter["sha"]) << name;
    for (const char* kept : {"exp_avg", "exp_avg_sq"})
      EXPECT_EQ(found["optimizer.state." + name + "." + kept], parameter[kept]) << name;
  }
}

// Every conversion of a distributed checkpoint applies to these folders: here to rank files and
// back.
TEST_P(AccelerateFolder, GoesToRankFilesWithItsOptimizer) {
  const OpsWorkshop shop;
  ConvertRequest request = To(&kFsdp, shop / "run");
  request.options.Set("mesh", std::string("dp=3"));
  request.options.Set("for", std::string("easyr1"));
  const auto report = Convert(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  const json expected = json::parse(ReadBytes(kAccelerate + "expected.json"))[GetParam()];
  const auto opened = fsdp::Open(shop / "run/global_step_2/actor", {}, {{}, true, false});
  ASSERT_TRUE(opened.ok()) << opened.error().ToString();
  std::map<std::string, std::string> found;
  for (const dcp::StoredEntry& entry : opened->folder.tensors)
    found.emplace(entry.key, ShortDigest(entry));
  for (const auto& [name, parameter] : expected["parameters"].items()) {
    EXPECT_EQ(found[name], parameter["sha"]) << name;
    for (const char* kept : {"exp_avg", "exp_avg_sq"})
      EXPECT_EQ(found["optimizer.state." + name + "." + kept], parameter[kept]) << name;
  }
}

// Without a configuration the names are still the model's.
TEST_P(AccelerateFolder, NamesAreTheModelsWithoutAConfiguration) {
  const OpsWorkshop shop;
  ConvertRequest request = To(&kHf, shop / "model");
  request.hints.config.reset();
  request.hints.optimizer = false;
  const auto report = Convert(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  const std::string bytes = ReadBytes(shop / "model/model.safetensors");
  EXPECT_NE(bytes.find("\"model.norm.weight\""), std::string::npos);
  EXPECT_EQ(bytes.find("\"model.model."), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, AccelerateFolder, ::testing::Values("state", "trainer"),
                         [](const auto& row) { return std::string(row.param); });

// FULL_STATE_DICT: two archives of rank 0.
TEST(AccelerateWhole, HoldsWhatTorchGathered) {
  const json expected = json::parse(ReadBytes(kAccelerate + "expected.json"))["full"];
  const Result<dcp::Folder> folder = dcp::OpenAccelerate(kAccelerate + "full");
  ASSERT_TRUE(folder.ok()) << folder.error().ToString();
  std::map<std::string, std::string> found;
  for (const dcp::StoredEntry& entry : folder->tensors)
    found.emplace(entry.key, ShortDigest(entry));
  for (const auto& [name, parameter] : expected["parameters"].items()) {
    EXPECT_EQ(found[name], parameter["sha"]) << name;
    for (const char* kept : {"exp_avg", "exp_avg_sq"})
      EXPECT_EQ(found["optimizer.state." + name + "." + kept], parameter[kept]) << name;
  }
}

// An unreadable optimizer does not stop a user who asks for the weights. An output without its
// optimizer is not made silently.
TEST(AccelerateWhole, AnOptimizerThatCannotBeReadIsRefused) {
  const testing_util::Scratch scratch;
  const std::string model = ReadBytes(kAccelerate + "full/pytorch_model_fsdp.bin");
  scratch.Write("pytorch_model_fsdp.bin", model);
  scratch.Write("optimizer.bin", model);
  const Result<dcp::Folder> folder = dcp::OpenAccelerate(scratch.folder());
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code(), Errc::kCorrupt);
  EXPECT_THAT(folder.error().message(), ::testing::HasSubstr("not an optimizer's state by names"));
  EXPECT_THAT(folder.error().hint(), ::testing::HasSubstr("folder is moved away"));
}

// One bit of each byte of the description of the two: an error, or the tensors of the run.
TEST(AccelerateDamage, MutationsAreRefusedOrHarmless) {
  const testing_util::Scratch scratch;
  std::filesystem::copy(kAccelerate + "trainer", scratch.folder(),
                        std::filesystem::copy_options::recursive);
  size_t refused = 0;
  for (const std::string name :
       {"pytorch_model_fsdp_0/.metadata", "optimizer_0/.metadata", "scheduler.pt"}) {
    const std::string whole = ReadBytes(scratch.Path(name));
    const size_t step = std::max<size_t>(1, whole.size() / 700);
    for (size_t i = 0; i < whole.size(); i += step) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
      scratch.Write(name, changed);
      const Result<dcp::Folder> folder = dcp::OpenAccelerate(scratch.folder());
      if (folder.ok()) continue;
      EXPECT_NE(folder.error().code(), Errc::kInternal) << name << i;
      ++refused;
    }
    scratch.Write(name, whole);
  }
  EXPECT_GT(refused, 500u);
  EXPECT_TRUE(dcp::OpenAccelerate(scratch.folder()).ok());
}

TEST(AccelerateScheduler, TheTrainersIsReadAndAcceleratesLeft) {
  const auto trainer = dcp::OpenAccelerate(kAccelerate + "trainer");
  const auto state = dcp::OpenAccelerate(kAccelerate + "state");
  ASSERT_TRUE(trainer.ok() && state.ok());
  const auto last_epoch = [](const dcp::Folder& folder) {
    return std::ranges::count(folder.metadata.objects, "lr_scheduler.last_epoch",
                              &dcp::ObjectEntry::key);
  };
  EXPECT_EQ(last_epoch(*trainer), 1);
  EXPECT_EQ(last_epoch(*state), 0);
  EXPECT_THAT(state->warnings, ::testing::Contains(::testing::HasSubstr("scheduler.bin is left")));
}

}  // namespace
}  // namespace nxdkit::ops
