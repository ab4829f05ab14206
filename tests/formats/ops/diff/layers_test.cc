// Parameters gathered into layers and modules.
#include "formats/ops/diff/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nxdkit::ops {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> NamesOf(const std::vector<LayerMove>& moves) {
  std::vector<std::string> names;
  for (const LayerMove& move : moves) names.push_back(move.name);
  return names;
}

std::vector<LayerMove> MovesOfNames(const std::vector<std::string>& names) {
  std::vector<MovedParam> params;
  for (const std::string& name : names) params.push_back({name, params.size(), 1, 1, {1, 1}});
  return MovesOf(params);
}

TEST(LayerMoves, AreInTheOrderOfTheModelAndLayersByNumber) {
  EXPECT_THAT(
      NamesOf(MovesOfNames({"model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight",
                            "model.layers.10.mlp.up_proj.weight", "model.layers.2.norm.weight",
                            "model.layers.0.norm.weight", "model.norm.weight", "lm_head.weight"})),
      ElementsAre("model.embed_tokens", "model.layers.0", "model.layers.2", "model.layers.10",
                  "model.norm", "lm_head"));
}

TEST(LayerMoves, TheFirstNumberOfANameIsItsLayer) {
  const std::vector<LayerMove> moves =
      MovesOfNames({"visual.blocks.1.attn.qkv.weight", "model.layers.3.mlp.experts.7.w1.weight",
                    "model.layers.3.mlp.experts.8.w1.weight", "head.0", "bias"});
  EXPECT_THAT(NamesOf(moves), ElementsAre("visual.blocks.1", "model.layers.3", "head", "bias"));
  EXPECT_EQ(moves[0].layer, 1);
  EXPECT_EQ(moves[1].layer, 3);
  EXPECT_EQ(moves[1].parameters, 2u);
  EXPECT_EQ(moves[1].stack(), "model.layers");
  EXPECT_EQ(moves[2].stack(), "") << "outside the layers";
  EXPECT_EQ(moves[2].layer, std::nullopt) << "the number is of the parameter itself";
}

TEST(LayerMoves, AddUpNorms) {
  const std::vector<LayerMove> moves = MovesOf({{"l.0.a", 0, 2, 1, {9, 1}},
                                                {"l.0.b", 1, 3, 2, {16, 3}},
                                                {"l.1.a", 2, 1, 0, {0, 0}},
                                                {"l.2.a", 3, 1, 1, {0, 4}}});
  ASSERT_EQ(moves.size(), 3u);
  EXPECT_EQ(moves[0].norm_a(), 5);
  EXPECT_EQ(moves[0].norm_update(), 2);
  EXPECT_EQ(moves[0].relative(), 0.4);
  EXPECT_EQ(moves[0].elements, 5u);
  EXPECT_EQ(moves[0].changed, 3u);
  EXPECT_EQ(moves[1].relative(), 0);
  EXPECT_EQ(moves[2].relative(), std::nullopt) << "from zeros";
}

TEST(HomeOf, FoldsNumbersBelowTheLayer) {
  const Home expert = HomeOf("model.layers.3.mlp.experts.17.w1.2.weight");
  EXPECT_EQ(expert.layer, "model.layers.3");
  EXPECT_EQ(expert.module, "mlp.experts.*.w1.*.weight");
  EXPECT_THAT(expert.numbers, ElementsAre("17", "2"));
  EXPECT_EQ(HomeOf("lm_head.weight").layer, "lm_head");
  EXPECT_EQ(HomeOf("lm_head.weight").module, "weight");
  EXPECT_EQ(HomeOf("bias").layer, "bias");
  EXPECT_EQ(HomeOf("bias").module, "");
  EXPECT_EQ(HomeOf("l.0.a*.5").module, "a*.5") << "a star of its own";
}

TEST(ModuleMoves, AddUpExperts) {
  const std::vector<ModuleMove> moves = ModulesOf({{"l.0.e.1.w", 2, 2, 1, {9, 1}, 1, 0.5},
                                                   {"l.0.b", 0, 1, 0, {1, 0}},
                                                   {"l.0.e.0.w", 1, 3, 2, {16, 3}, 2, 0.25},
                                                   {"l.1.e.0.w", 3, 3, 2, {1, 1}}});
  ASSERT_EQ(moves.size(), 3u);
  EXPECT_EQ(moves[0].module, "b");
  EXPECT_EQ(moves[1].layer, "l.0");
  EXPECT_EQ(moves[1].module, "e.*.w");
  EXPECT_EQ(moves[1].infinite, 3u);
  EXPECT_EQ(moves[1].max_abs, 0.5);
  EXPECT_EQ(moves[1].sum.parameters, 2u);
  EXPECT_EQ(moves[1].sum.elements, 5u);
  EXPECT_EQ(moves[1].sum.norm_a(), 5);
  EXPECT_EQ(moves[1].sum.norm_update(), 2);
  EXPECT_EQ(moves[2].layer, "l.1");
}

}  // namespace
}  // namespace nxdkit::ops
