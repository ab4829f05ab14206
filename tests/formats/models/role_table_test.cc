#include "formats/models/role_table.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "formats/models/rank_tensors.h"
#include "tests/formats/model_layouts.h"

namespace nxdkit::models {
namespace {

using NameList = std::vector<std::string>;
using testing_util::ModelOf;
using testing_util::SmallConfig;
using testing_util::SmallMoeConfig;

Model WithBiases() {
  return ModelOf(
      SmallConfig({{"attention_bias", true}, {"mlp_bias", true}, {"num_hidden_layers", 1}}));
}

TEST(RoleTable, ABiasIsCutWithRowsAndWholeBesideColumns) {
  const Model model = WithBiases();
  const std::string layer = "model.layers.0.";
  for (const auto& [name, weight, bias] : {std::tuple{"self_attn.q_proj", 0, 0},
                                           {"self_attn.v_proj", 0, 0},
                                           {"self_attn.o_proj", 1, kWhole},
                                           {"mlp.up_proj", 0, 0},
                                           {"mlp.down_proj", 1, kWhole}}) {
    EXPECT_EQ(model.params[*model.Find(layer + name + ".weight")].CutDim(), weight) << name;
    EXPECT_EQ(model.params[*model.Find(layer + name + ".bias")].CutDim(), bias) << name;
  }
}

// Weights with weights and biases with biases, in the order of their roles.
TEST(RoleTable, FusedParametersComeWithTheirLeader) {
  const Model model = WithBiases();
  std::vector<std::pair<std::string, NameList>> fused;
  for (uint32_t i = 0; i < model.params.size(); ++i) {
    const Param& param = model.params[i];
    if (RowOf(param.role).fused == Fused::kAlone || !param.Leads()) continue;
    NameList names;
    for (const uint32_t other : FusedWith(model, i)) names.push_back(model.params[other].name);
    fused.emplace_back(FusedName(param), std::move(names));
  }
  const auto in = [](std::string module, const NameList& names, const std::string& end) {
    NameList full;
    for (const std::string& name : names) full.push_back(module + name + end);
    return full;
  };
  const std::string attention = "model.layers.0.self_attn.", mlp = "model.layers.0.mlp.";
  const NameList qkv = {"q_proj", "k_proj", "v_proj"}, gate_up = {"gate_proj", "up_proj"};
  const std::vector<std::pair<std::string, NameList>> expected = {
      {attention + "qkv_proj.weight", in(attention, qkv, ".weight")},
      {attention + "qkv_proj.bias", in(attention, qkv, ".bias")},
      {mlp + "gate_up_proj.weight", in(mlp, gate_up, ".weight")},
      {mlp + "gate_up_proj.bias", in(mlp, gate_up, ".bias")}};
  EXPECT_EQ(fused, expected);
}

TEST(RoleTable, TheFirstExpertsGateLeads) {
  for (const char* family : {"mixtral", "qwen3_moe"}) {
    const Model model = ModelOf(SmallMoeConfig(family, {{"num_hidden_layers", 1}}));
    NameList leaders;
    for (const Param& param : model.params)
      if (RowOf(param.role).fused == Fused::kExperts && param.Leads())
        leaders.push_back(param.name);
    const bool mixtral = std::string(family) == "mixtral";
    EXPECT_EQ(leaders, NameList{mixtral ? "model.layers.0.block_sparse_moe.experts.0.w1.weight"
                                        : "model.layers.0.mlp.experts.0.gate_proj.weight"});
  }
}

}  // namespace
}  // namespace nxdkit::models
