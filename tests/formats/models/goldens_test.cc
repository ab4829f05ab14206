// Every case of testdata/goldens/*.json: our layouts give the reference programs' bytes, and
// convert back to the model.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "formats/models/sample_model.h"
#include "lib/hash/digest.h"
#include "tests/formats/memory_sink.h"
#include "tests/formats/model_layouts.h"

namespace nxdkit {
namespace {

using nlohmann::json;

json ReadGoldens(const char* name) {
  std::ifstream in(std::string(NXDKIT_TESTDATA) + "/goldens/" + name);
  return json::parse(in);
}

const json& Goldens() {
  static const json goldens = ReadGoldens("reference.json");
  return goldens;
}

const json& LayerGoldens() {
  static const json goldens = ReadGoldens("layers.json");
  return goldens;
}

models::Model ModelOf(const json& golden) { return testing_util::ModelOf(golden.at("config")); }

nxd::Geometry NxdGeometryOf(const json& golden) {
  nxd::Geometry geometry;
  const json& options = golden.at("reference_options");
  for (size_t i = 0; i + 1 < options.size(); i += 2) {
    const std::string key = options[i];
    const std::string value = options[i + 1];
    if (key == "--tp_size") geometry.tp = std::stoi(value);
    if (key == "--pp_size") geometry.pp = std::stoi(value);
    if (key == "--virtual_pp_size") geometry.vpp = std::stoi(value);
    if (key == "--kv_size_multiplier") geometry.kv_multiplier = std::stoi(value);
    if (key == "--qkv_linear") geometry.qkv = nxd::QkvStyle::kLinear;
    if (key == "--coalesce_qkv") geometry.qkv = nxd::QkvStyle::kCoalesced;
  }
  for (const auto& option : options)
    if (option == "--fuse_qkv") geometry.qkv = nxd::QkvStyle::kFused;
  return geometry;
}

// "file/tensor" -> "[shape] dtype hash", for comparing whole sets at once.
std::map<std::string, std::string> Expected(const json& golden) {
  std::map<std::string, std::string> out;
  for (const auto& [file, tensors] : golden.at("files").items())
    for (const auto& [name, row] : tensors.items()) {
      const std::string dtype = row.size() == 3 ? row[1].get<std::string>() : "bfloat16";
      out[file + "/" + name] =
          fmt::format("{} {} {}", row[0].dump(), dtype, row.back().get<std::string>());
    }
  return out;
}

std::map<std::string, std::string> Found(const Layout& layout,
                                         const testing_util::MemorySink& sink) {
  std::map<std::string, std::string> out;
  for (size_t i = 0; i < layout.tensors.size(); ++i)
    out[layout.files[layout.tensors[i].file].path + "/" + layout.tensors[i].name] =
        fmt::format("{} {} {}", json(layout.tensors[i].shape).dump(),
                    TorchName(sink.outputs()[i].dtype), Sha256Hex(sink.bytes(i)).substr(0, 24));
  return out;
}

void CheckBothWays(const json& golden, const models::Model& model, const Layout& layout) {
  const uint64_t seed = golden.at("seed");
  const std::vector<LogicalTensor> params = model.Logical();
  const BoundLayout source = models::SampleCheckpoint(model, seed, Dtype::kBF16);
  const testing_util::MemorySink shards =
      testing_util::RunPlan(params, source, layout, Dtype::kBF16);
  EXPECT_THAT(Found(layout, shards), ::testing::ContainerEq(Expected(golden)));

  const testing_util::MemorySink back =
      testing_util::RunPlan(params, shards.Bind(layout), source.layout, Dtype::kBF16);
  for (size_t i = 0; i < params.size(); ++i) {
    std::vector<std::byte> original(back.bytes(i).size());
    ASSERT_TRUE(source.stored[i].storage->ReadAt(0, original).ok());
    EXPECT_EQ(Sha256Hex(back.bytes(i)), Sha256Hex(original)) << params[i].name;
  }
}

class Nxd : public ::testing::TestWithParam<size_t> {};
TEST_P(Nxd, MatchesTheReferenceConverterBothWays) {
  const json& golden = Goldens().at("nxd")[GetParam()];
  SCOPED_TRACE(golden.at("case"));
  const models::Model model = ModelOf(golden);
  CheckBothWays(golden, model, testing_util::NxdLayout(model, NxdGeometryOf(golden)));
}
INSTANTIATE_TEST_SUITE_P(Goldens, Nxd, ::testing::Range(size_t{0}, Goldens().at("nxd").size()));

class Rollout : public ::testing::TestWithParam<size_t> {};
TEST_P(Rollout, MatchesOptimumNeuronBothWays) {
  const json& golden = Goldens().at("rollout")[GetParam()];
  SCOPED_TRACE(golden.at("case"));
  const models::Model model = ModelOf(golden);
  rollout::Geometry geometry;
  geometry.tp = golden.at("tp_degree");
  geometry.fused_qkv = golden.at("fused_qkv");
  const models::RolloutHeads heads =
      models::RolloutPlacement(model.config.heads, model.config.kv_heads, geometry.tp);
  EXPECT_EQ(heads.padded_query, golden.at("padded_q_heads"));
  EXPECT_EQ(heads.padded_kv, golden.at("padded_kv_heads"));
  EXPECT_EQ(models::GqaStrategyName(heads.strategy), golden.at("strategy"));
  CheckBothWays(golden, model, testing_util::RolloutLayout(model, geometry));
}
INSTANTIATE_TEST_SUITE_P(Goldens, Rollout,
                         ::testing::Range(size_t{0}, Goldens().at("rollout").size()));

// Mixtral and Qwen3-MoE: transposed experts, gate and up of each rank, repeated and padded heads.
class Nxdi : public ::testing::TestWithParam<size_t> {};
TEST_P(Nxdi, MatchesItsConversionAndSlicingBothWays) {
  const json& golden = LayerGoldens().at("nxdi")[GetParam()];
  SCOPED_TRACE(golden.at("case"));
  const models::Model model = ModelOf(golden);
  rollout::Geometry geometry;
  geometry.flavor = rollout::Flavor::kNxdi;
  geometry.tp = golden.at("tp_degree");
  geometry.fused_qkv = golden.at("fused_qkv");
  CheckBothWays(golden, model, testing_util::RolloutLayout(model, geometry));
}
INSTANTIATE_TEST_SUITE_P(Goldens, Nxdi,
                         ::testing::Range(size_t{0}, LayerGoldens().at("nxdi").size()));

// GPT-NeoX and BERT, with both names of a tied pair stored.
class NxdLayers : public ::testing::TestWithParam<size_t> {};
TEST_P(NxdLayers, AreCutAsItsLayersCutThemBothWays) {
  const json& golden = LayerGoldens().at("nxd_layers")[GetParam()];
  SCOPED_TRACE(golden.at("case"));
  const models::Model model = ModelOf(golden);
  nxd::Geometry geometry;
  geometry.tp = golden.at("tp_size");
  CheckBothWays(golden, model, testing_util::NxdLayout(model, geometry, true));
}
INSTANTIATE_TEST_SUITE_P(Goldens, NxdLayers,
                         ::testing::Range(size_t{0}, LayerGoldens().at("nxd_layers").size()));

}  // namespace
}  // namespace nxdkit
