// Checkpoints that torch 2.15 saved (testdata/dcp/make.py), of one model on three meshes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "formats/artifact/bound.h"
#include "formats/dcp/folder.h"
#include "formats/dcp/layout.h"
#include "formats/dcp/metadata_writer.h"
#include "formats/kinds/open.h"
#include "formats/manifest/manifest.h"
#include "formats/ops/digest/digest.h"
#include "formats/ops/verify/verify.h"
#include "lib/hash/digest.h"
#include "tests/formats/dcp/assemble.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using testing_util::Assemble;
using testing_util::OpsWorkshop;
using testing_util::ReadBytes;

const std::string kFolder = NXDKIT_TESTDATA "/dcp/";
const std::string kConfig = kFolder + "config.json";

const nlohmann::json& Expected() {
  static const nlohmann::json json = nlohmann::json::parse(ReadBytes(kFolder + "expected.json"));
  return json;
}

class Fixture : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string path_ = kFolder + GetParam();
};

// Objects of a run's state are carried over; for a tensor a note says that it is not.
TEST(DcpState, ATensorOfTheRunIsNamedAmongWhatIsLeftOut) {
  const testing_util::Scratch scratch;
  for (const char* name : {".metadata", "__0_0.distcp"})
    scratch.Write(name, ReadBytes(kFolder + "one/" + name));
  dcp::Metadata metadata = *dcp::ParseMetadata(ReadBytes(scratch.Path(".metadata")));
  for (const dcp::TensorEntry& entry : std::vector(metadata.tensors))
    if (entry.key == "norm.weight") {
      metadata.tensors.push_back(entry);
      metadata.tensors.back().key = "dataloader.seen";
    }
  scratch.Write(".metadata", *dcp::WriteMetadata(metadata));
  ops::InputHints hints;
  hints.config = kConfig;
  const auto bound = ops::OpenAndBind(scratch.folder(), &ops::kDcp, hints);
  ASSERT_TRUE(bound.ok()) << bound.error().ToString();
  EXPECT_THAT(bound->left_out, ::testing::ElementsAre("dataloader.seen"));
}

TEST_P(Fixture, HoldsTheTensorsThatTorchHad) {
  const auto folder = dcp::Open(path_);
  ASSERT_TRUE(folder.ok()) << folder.error().ToString();
  const nlohmann::json& expected = Expected()["tensors"];
  EXPECT_EQ(folder->tensors.size(), expected.size());
  for (const dcp::StoredEntry& entry : folder->tensors) {
    SCOPED_TRACE(entry.key);
    ASSERT_TRUE(expected.contains(entry.key));
    EXPECT_EQ(entry.shape, expected[entry.key]["shape"].get<Shape>());
    EXPECT_EQ(TorchName(entry.dtype), expected[entry.key]["dtype"].get<std::string>());
    Sha256 digest;
    const std::string bytes = Assemble(entry);
    digest.Update(std::as_bytes(std::span(bytes)));
    EXPECT_EQ(HexText(digest.Finish()), expected[entry.key]["sha256"].get<std::string>());
  }
}

TEST_P(Fixture, HoldsTheObjectsThatTorchHad) {
  const auto folder = dcp::Open(path_);
  ASSERT_TRUE(folder.ok()) << folder.error().ToString();
  std::map<std::string, torch::PickleValue> found;
  for (const dcp::ObjectEntry& object : folder->metadata.objects) {
    const auto value = dcp::ReadObjectValue(*folder, object);
    ASSERT_TRUE(value.ok()) << value.error().ToString();
    found.emplace(object.key, *value);
  }
  size_t count = 0;
  for (const auto& [top, items] : Expected()["objects"][GetParam()].items()) count += items.size();
  EXPECT_EQ(found.size(), count);
  EXPECT_EQ(*found.at("train_state.ntokens_seen").integer(), 64);
  EXPECT_EQ(*found.at("lr_scheduler.last_epoch").integer(), 1);
  EXPECT_EQ(std::get<double>(found.at("optimizer.param_groups.norm.weight.lr").value), 1e-3);
  const auto& betas = found.at("optimizer.param_groups.norm.weight.betas");
  EXPECT_TRUE(std::holds_alternative<torch::PickleValue::Tuple>(betas.value));
  EXPECT_EQ(std::get<double>(betas.list()->at(1).value), 0.95);
}

std::string DigestText(const std::string& path, const ops::Kind* kind) {
  ops::InputHints hints;
  hints.config = kConfig;
  const auto bound = ops::OpenAndBind(path, kind, hints);
  EXPECT_TRUE(bound.ok()) << bound.error().ToString();
  if (!bound.ok()) return "";
  const auto digest = ops::DigestModel(*bound, {});
  EXPECT_TRUE(digest.ok()) << digest.error().ToString();
  return digest.ok() ? manifest::DigestText(digest->digest) : "";
}

TEST_P(Fixture, HasTheDigestOfTheModelInEveryLayout) {
  OpsWorkshop shop;
  ops::ConvertRequest request = OpsWorkshop::Request(path_, &ops::kDcp, shop / "hf", &ops::kHf);
  request.hints.config = kConfig;
  const auto made = ops::Convert(request);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  const std::string one = DigestText(kFolder + "one", &ops::kDcp);
  EXPECT_EQ(DigestText(path_, &ops::kDcp), one);
  EXPECT_EQ(DigestText(shop / "hf", &ops::kHf), one);
}

TEST_P(Fixture, IsGood) {
  ops::VerifyRequest request;
  request.path = path_;
  request.hints.config = kConfig;
  const auto report = ops::Verify(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_TRUE(report->findings.empty()) << report->findings.front().message;
  EXPECT_THAT(report->checks,
              ::testing::Contains("the optimizer's state is complete for 3 of 25 parameters"));
}

INSTANTIATE_TEST_SUITE_P(Dcp, Fixture, ::testing::Values("one", "fsdp4", "mesh2x2"),
                         [](const auto& row) { return std::string(row.param); });

// A llama of 10,000 layers with 65,536 heads each would take some 400 GB of pieces: they are made
// only for tensors that are there.
TEST(DcpConfig, CountsOfAConfigurationAreNotTrusted) {
  const testing_util::Scratch scratch;
  const std::string config = scratch.Write("config.json", R"({"model_type": "llama",
    "hidden_size": 131072, "intermediate_size": 5, "num_hidden_layers": 10000,
    "num_attention_heads": 65536, "num_key_value_heads": 65536, "head_dim": 2, "vocab_size": 128,
    "rms_norm_eps": 1e-6, "max_position_embeddings": 64, "tie_word_embeddings": false})");
  ops::InputHints hints;
  hints.config = config;
  const auto bound = ops::OpenAndBind(kFolder + "one", &ops::kDcp, hints);
  const auto error = testing_util::ExpectError(bound, Errc::kCorrupt,
                                               "shape [128, 64] found, [128, 131072] expected");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "tok_embeddings.weight");
}

// The boxes that a mesh cuts are those of torch.
std::set<std::string> BoxesIn(const dcp::Folder& folder, const std::string& key) {
  std::set<std::string> boxes;
  for (const dcp::StoredEntry& entry : folder.tensors)
    if (entry.key == key)
      for (const dcp::StoredChunk& chunk : entry.chunks) boxes.insert(BoxText(chunk.box));
  return boxes;
}

TEST(Mesh, CutsAsTorchDoes) {
  const auto config = models::ParseConfig(ReadBytes(kConfig), kConfig);
  ASSERT_TRUE(config.ok());
  const auto model = models::MakeModel(*config);
  ASSERT_TRUE(model.ok());
  const auto tensors = dcp::ModelTensors(*model, dcp::Style::kTitan);
  ASSERT_TRUE(tensors.ok());
  const std::pair<const char*, dcp::Mesh> kMeshes[] = {
      {"one", {}}, {"fsdp4", {4, 1}}, {"mesh2x2", {2, 2}}};
  for (const auto& [name, mesh] : kMeshes) {
    const auto folder = dcp::Open(kFolder + name);
    ASSERT_TRUE(folder.ok());
    for (const dcp::GlobalTensor& tensor : *tensors) {
      std::set<std::string> boxes;
      for (const dcp::RankBox& part : dcp::CutOver(tensor, mesh)) boxes.insert(BoxText(part.box));
      EXPECT_EQ(boxes, BoxesIn(*folder, tensor.layout.name)) << name << " " << tensor.layout.name;
    }
  }
}

}  // namespace
}  // namespace nxdkit
