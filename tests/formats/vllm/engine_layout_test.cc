// Cases that the goldens lack (their digests: tests/formats/ops/digest/engine_test.cc).
#include "formats/vllm/engine_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/model_layouts.h"

namespace nxdkit::vllm {
namespace {

using ::testing::ElementsAre;
using testing_util::ModelOf;
using testing_util::SmallConfig;
using testing_util::SmallMoeConfig;

TensorLayout Tensor(const models::Model& model, const Geometry& geometry, int rank,
                    const std::string& name) {
  const auto tensors = RankTensors(model, geometry, rank);
  EXPECT_TRUE(tensors.ok()) << tensors.error().ToString();
  if (tensors.ok())
    for (const TensorLayout& tensor : *tensors)
      if (tensor.name == name) return tensor;
  ADD_FAILURE() << "no " << name;
  return {};
}

Layout WholeLayout(const models::Model& model, const Geometry& geometry) {
  Layout layout;
  for (int rank = 0; rank < geometry.tp; ++rank) {
    layout.files.push_back({"", rank, -1});
    auto tensors = RankTensors(model, geometry, rank);
    EXPECT_TRUE(tensors.ok()) << tensors.error().ToString();
    if (!tensors.ok()) return layout;
    for (TensorLayout& tensor : *tensors) {
      tensor.file = static_cast<uint32_t>(rank);
      layout.tensors.push_back(std::move(tensor));
    }
  }
  return layout;
}

TEST(EngineLayout, BiasesOfRowParallelLayersAreWhole) {
  const models::Model model = ModelOf(SmallConfig({{"attention_bias", true}, {"mlp_bias", true}}));
  const std::string layer = "model.layers.1.";
  EXPECT_THAT(Tensor(model, {4, false}, 3, layer + "self_attn.o_proj.bias").shape, ElementsAre(16));
  EXPECT_THAT(Tensor(model, {4, false}, 3, layer + "mlp.down_proj.bias").shape, ElementsAre(16));
  EXPECT_THAT(Tensor(model, {4, false}, 3, layer + "self_attn.qkv_proj.bias").shape,
              ElementsAre(4 + 2 + 2));
  EXPECT_THAT(Tensor(model, {4, false}, 3, layer + "mlp.gate_up_proj.bias").shape, ElementsAre(12));
}

// 6 experts over 4 ranks: 2, 2, 1, 1.
TEST(EngineLayout, ExpertsThatDoNotDivide) {
  const models::Model model =
      ModelOf(SmallMoeConfig("qwen3_moe", {{"num_experts", 6}, {"num_local_experts", 6}}));
  const std::string name = "model.layers.0.mlp.experts.routed_experts.w13_weight";
  const int64_t counts[] = {2, 2, 1, 1};
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_THAT(Tensor(model, {4, true}, rank, name).shape, ElementsAre(counts[rank], 16, 16));
  const TensorLayout last = Tensor(model, {4, true}, 3, name);
  EXPECT_EQ(model.params[last.pieces[0].param].expert, 5);
}

TEST(EngineLayout, EveryElementOfEveryRankHasOnePlace) {
  const models::Model models[] = {
      ModelOf(SmallConfig()),
      ModelOf(SmallConfig({{"model_type", "qwen2"}, {"tie_word_embeddings", true}})),
      ModelOf(SmallMoeConfig("mixtral")), ModelOf(SmallMoeConfig("qwen3_moe"))};
  for (const models::Model& model : models)
    for (const int tp : {1, 2, 4, 8})
      for (const bool experts : {false, true}) {
        if (experts && (model.config.experts == 0 || tp > model.config.experts)) continue;
        const Layout layout = WholeLayout(model, {tp, experts});
        const Status status = CheckLayout(model.Logical(), layout);
        EXPECT_TRUE(status.ok()) << model.config.model_type << " tp " << tp << ": "
                                 << status.error().ToString();
      }
}

TEST(EngineLayout, NamesAndTypesAreTheEngines) {
  EXPECT_EQ(CheckerKey(3, "model.norm.weight"), "dp0:pp0:pcp0:tp3:model.norm.weight");
  EXPECT_EQ(EngineDtype(ModelOf(SmallConfig()).config), Dtype::kBF16);
  EXPECT_EQ(EngineDtype(ModelOf(SmallConfig({{"torch_dtype", "float32"}})).config), Dtype::kBF16);
  EXPECT_EQ(EngineDtype(ModelOf(SmallConfig({{"torch_dtype", "float16"}})).config), Dtype::kF16);
}

}  // namespace
}  // namespace nxdkit::vllm
