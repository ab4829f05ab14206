// Runs that train a LoRA adapter: the model with the adapter merged, the adapter, the base.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "formats/kinds/table.h"
#include "lib/hash/digest.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::ops {
namespace {

using nlohmann::json;
using testing_util::ExpectError;
using testing_util::OpsWorkshop;
using testing_util::ReadBytes;

const std::string kLoraRuns = NXDKIT_TESTDATA "/rank_files/";
const std::string kWithBase = kLoraRuns + "easyr1-lora";
const std::string kAlone = kLoraRuns + "verl-lora-only";

// The settings of the run's generator: r 4, lora_alpha 8.
ConvertRequest ToHf(const std::string& run, const std::string& output, const char* take = nullptr) {
  ConvertRequest request = OpsWorkshop::Request(run, &kFsdp, output, &kHf);
  request.hints.lora_alpha = "8";
  if (take) request.hints.Set("lora", take);
  return request;
}

// The bytes of the tensors in a safetensors file, by name.
std::map<std::string, std::string> TensorsIn(const std::string& path) {
  const std::string bytes = ReadBytes(path);
  uint64_t head = 0;
  std::memcpy(&head, bytes.data(), sizeof head);
  std::map<std::string, std::string> out;
  const json header = json::parse(bytes.substr(8, head));
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const uint64_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    out[name] = bytes.substr(8 + head + begin, end - begin);
  }
  return out;
}

std::string DigestOf(const std::string& bytes) {
  return Sha256Hex(std::as_bytes(std::span(bytes))).substr(0, 24);
}

// As torch gathered them from the live run, except for the names.
TEST(RankFilesLora, AdapterAndBaseAreWhatTorchGathered) {
  const json all = json::parse(ReadBytes(kLoraRuns + "expected.json"));
  for (const std::string run : {"easyr1-lora", "verl-lora-only"}) {
    const OpsWorkshop shop;
    ASSERT_TRUE(Convert(ToHf(kLoraRuns + run, shop / "adapter", "adapter")).ok());
    const auto adapter = TensorsIn(shop / "adapter/adapter_model.safetensors");
    size_t met = 0;
    for (const auto& [name, tensor] : all[run]["model"].items()) {
      const size_t at = name.find(".default");
      if (at == std::string::npos) continue;
      const auto found = adapter.find(name.substr(0, at) + ".weight");
      ASSERT_NE(found, adapter.end()) << name;
      EXPECT_EQ(DigestOf(found->second), tensor["sha256"]) << name;
      ++met;
    }
    EXPECT_EQ(met, adapter.size());
    const json config = json::parse(ReadBytes(shop / "adapter/adapter_config.json"));
    EXPECT_EQ(config["r"], 4);
    EXPECT_EQ(config["lora_alpha"], 8);
    EXPECT_EQ(config["target_modules"], json({"down_proj", "q_proj", "v_proj"}));
  }
  const OpsWorkshop shop;
  ASSERT_TRUE(Convert(ToHf(kWithBase, shop / "base", "base")).ok());
  const auto base = TensorsIn(shop / "base/model.safetensors");
  size_t met = 0;
  for (const auto& [name, tensor] : all["easyr1-lora"]["model"].items()) {
    if (name.find("lora_") != std::string::npos) continue;
    std::string plain = name.substr(std::string("base_model.model.").size());
    if (const size_t at = plain.find(".base_layer"); at != std::string::npos) plain.erase(at, 11);
    EXPECT_EQ(DigestOf(base.at(plain)), tensor["sha256"]) << name;
    ++met;
  }
  EXPECT_EQ(met, base.size());
}

// Merged at once, from PEFT's form of the adapter, and from the run as an adapter: the same bytes.
// A test with PEFT shows that merging gives PEFT's result.
TEST(RankFilesLora, MergedIsBaseAndAdapterMerged) {
  const OpsWorkshop shop;
  ASSERT_TRUE(Convert(ToHf(kWithBase, shop / "merged")).ok());
  ASSERT_TRUE(Convert(ToHf(kWithBase, shop / "base", "base")).ok());
  ASSERT_TRUE(Convert(ToHf(kWithBase, shop / "adapter", "adapter")).ok());
  const std::string merged = ReadBytes(shop / "merged/model.safetensors");
  EXPECT_NE(merged, ReadBytes(shop / "base/model.safetensors"));
  for (const std::string& adapter : {shop / "adapter", kWithBase}) {
    ConvertRequest request = OpsWorkshop::Request(shop / "base", &kHf, shop / "again", &kHf);
    request.hints.lora = adapter;
    if (adapter == kWithBase) request.hints.lora_alpha = "8";
    request.force = true;
    const auto report = Convert(request);
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    EXPECT_EQ(ReadBytes(shop / "again/model.safetensors"), merged);
  }
}

// A run's adapter alone is merged into a base in another place.
TEST(RankFilesLora, AnAdapterAloneIsMergedIntoABase) {
  const OpsWorkshop shop;
  ASSERT_TRUE(Convert(ToHf(kWithBase, shop / "base", "base")).ok());
  ConvertRequest request = OpsWorkshop::Request(shop / "base", &kHf, shop / "merged", &kHf);
  request.hints.lora = kAlone;
  request.hints.lora_alpha = "8";
  const auto report = Convert(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_NE(ReadBytes(shop / "merged/model.safetensors"),
            ReadBytes(shop / "base/model.safetensors"));
}

// The scale is never guessed: verl's own merger uses 0 if its file is missing.
TEST(RankFilesLora, WhatItIsScaledByMustBeKnown) {
  const OpsWorkshop shop;
  ConvertRequest request = ToHf(kWithBase, shop / "out");
  request.hints.lora_alpha.reset();
  auto error =
      ExpectError(Convert(request), Errc::kUsage, "lora_alpha of the adapter is not known");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), ::testing::HasSubstr("--lora-alpha"));
  request.hints.lora_alpha = "0";
  ExpectError(Convert(request), Errc::kUsage, "expected a number above 0");
}

TEST(RankFilesLora, TheScaleIsReadWhereTrainersWriteIt) {
  const OpsWorkshop shop;
  ASSERT_TRUE(Convert(ToHf(kWithBase, shop / "merged")).ok());
  const std::string merged = ReadBytes(shop / "merged/model.safetensors");
  for (const auto& [file, text] :
       {std::pair<std::string, std::string>{
            "lora_train_meta.json", R"({"r": 4, "lora_alpha": 8, "task_type": "CAUSAL_LM"})"},
        {"lora_adapter/adapter_config.json",
         R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj",
             "down_proj"]})"}}) {
    const std::string run = shop / file.substr(0, 8);
    const std::string actor = run + "/global_step_2/actor";
    std::filesystem::copy(kWithBase, run, std::filesystem::copy_options::recursive);
    std::filesystem::create_directories(std::filesystem::path(actor + "/" + file).parent_path());
    std::ofstream(actor + "/" + file) << text;
    ConvertRequest request = ToHf(actor, shop / "out");
    request.hints.lora_alpha.reset();
    request.force = true;
    const auto report = Convert(request);
    ASSERT_TRUE(report.ok()) << file << ": " << report.error().ToString();
    EXPECT_EQ(ReadBytes(shop / "out/model.safetensors"), merged) << file;
  }
}

}  // namespace
}  // namespace nxdkit::ops
