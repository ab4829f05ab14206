// The rank files of vLLM with NKIPy, by cases worked out by hand. Random configurations against a
// port of the vendor's script: tests/interop/neuron_interop.py.
#include "formats/nkipy/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/model_layouts.h"

namespace nxdkit::nkipy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::ModelOf;
using testing_util::SmallConfig;
using testing_util::SmallMoeConfig;

std::map<std::string, TensorLayout> Tensors(const models::Model& model, const Geometry& geometry,
                                            int rank) {
  std::map<std::string, TensorLayout> out;
  auto tensors = RankTensors(model, geometry, rank);
  EXPECT_TRUE(tensors.ok()) << tensors.error().ToString();
  if (tensors.ok())
    for (TensorLayout& tensor : *tensors) out[tensor.name] = tensor;
  return out;
}

TEST(NkipyLayout, DenseTensorsAreSlicesTransposed) {
  const models::Model model = ModelOf(SmallConfig({{"model_type", "qwen3"}}));
  std::map<std::string, TensorLayout> rank = Tensors(model, {8}, 5);
  EXPECT_EQ(rank.size(), 3u + 2 * 8);
  EXPECT_THAT(rank["layers.1.qkv_weight"].shape, ElementsAre(16, 2 + 2 + 2));
  EXPECT_THAT(rank["layers.1.qkv_weight"].pieces[1].logical.lo, ElementsAre(4, 0));  // head 2 of 4
  EXPECT_THAT(rank["layers.1.o_weight"].shape, ElementsAre(2, 16));
  EXPECT_THAT(rank["layers.1.gate_up_weight"].shape, ElementsAre(16, 6));
  EXPECT_THAT(rank["layers.1.gate_up_weight"].pieces[1].stored_lo, ElementsAre(0, 3));  // up
  EXPECT_THAT(rank["layers.1.down_weight"].shape, ElementsAre(3, 16));
  EXPECT_THAT(rank["layers.1.q_norm_weight"].shape, ElementsAre(2));
  EXPECT_THAT(rank["lm_head_weight"].shape, ElementsAre(16, 3));
  EXPECT_THAT(rank["tok_embedding"].shape, ElementsAre(24, 2));
  EXPECT_THAT(rank["tok_embedding"].pieces[0].logical.lo, ElementsAre(0, 10));
}

TEST(NkipyLayout, OlderScriptsStoreTheEmbeddingWhole) {
  const models::Model model = ModelOf(SmallConfig());
  EXPECT_THAT(Tensors(model, {4, Embedding::kWhole}, 3)["tok_embedding"].shape,
              ElementsAre(24, 16));
}

TEST(NkipyLayout, ExpertsAreOneTensor) {
  const models::Model model = ModelOf(SmallMoeConfig("qwen3_moe"));
  std::map<std::string, TensorLayout> rank = Tensors(model, {2}, 1);
  EXPECT_THAT(rank["layers.0.gate_up_weight"].shape, ElementsAre(4, 16, 8));
  EXPECT_THAT(rank["layers.0.down_weight"].shape, ElementsAre(4, 4, 16));
  EXPECT_THAT(rank["layers.0.router_weight"].shape, ElementsAre(16, 4));
}

TEST(NkipyLayout, EveryElementOfARankHasOnePlace) {
  const models::Model models[] = {ModelOf(SmallConfig()),
                                  ModelOf(SmallConfig({{"tie_word_embeddings", true}})),
                                  ModelOf(SmallMoeConfig("qwen3_moe"))};
  for (const models::Model& model : models)
    for (const int tp : {1, 2, 4, 8}) {
      Layout layout;
      for (int rank = 0; rank < tp; ++rank) {
        layout.files.push_back({"", rank, -1});
        for (auto& [name, tensor] : Tensors(model, {tp}, rank)) {
          tensor.file = static_cast<uint32_t>(rank);
          layout.tensors.push_back(std::move(tensor));
        }
      }
      const Status status = CheckLayout(model.Logical(), layout);
      EXPECT_TRUE(status.ok()) << model.config.model_type << " tp " << tp << ": "
                               << status.error().ToString();
    }
}

struct Refused {
  const char* name;
  nlohmann::json config;
  Geometry geometry;
  const char* message;
};

class NkipyRefusals : public ::testing::TestWithParam<Refused> {};

TEST_P(NkipyRefusals, NameTheDimension) {
  const auto refused = RankTensors(ModelOf(GetParam().config), GetParam().geometry, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::kUnsupported);
  EXPECT_THAT(refused.error().ToString(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, NkipyRefusals,
    ::testing::Values(
        Refused{"Vocabulary",
                SmallConfig({{"vocab_size", 25}}),
                {2},
                "lm_head.weight: dimension 0 has 25 elements, which tp 2 does not divide"},
        Refused{"TiedVocabulary",
                SmallConfig({{"vocab_size", 25}, {"tie_word_embeddings", true}}),
                {2},
                "lm_head.weight: dimension 0 has 25 elements, which tp 2 does not divide"},
        Refused{"Intermediate",
                SmallConfig({{"intermediate_size", 25}}),
                {2},
                "mlp.gate_proj.weight: dimension 0 has 25 elements"},
        Refused{"Hidden",
                SmallConfig({{"hidden_size", 18}}),
                {4},
                "model.embed_tokens.weight: dimension 1 has 18 elements"},
        Refused{"KeyHeads",
                SmallConfig({{"num_attention_heads", 12}, {"intermediate_size", 48}}),
                {6, Embedding::kWhole},
                "4 key heads and tp 6: neither divides the other"},
        Refused{"Family", SmallConfig({{"model_type", "qwen2"}}), {2}, "is not known"},
        Refused{"Biases", SmallConfig({{"attention_bias", true}}), {2}, "has no such parameter"}),
    [](const auto& row) { return row.param.name; });

// The text of a family may have the view but no heads.
models::Model WithoutHeads() {
  constexpr const char* kText =
      "family x; match X\nlet H = hidden_size; let V = vocab_size\nall model.norm H\n"
      "view nkipy\nrename a. b.\n";
  auto family = models::ParseFamily(kText, "x.family");
  EXPECT_TRUE(family.ok()) << family.error().ToString();
  const auto config =
      models::ParseConfigAs(std::make_shared<const models::Family>(*std::move(family)),
                            SmallConfig().dump(), "config.json");
  EXPECT_TRUE(config.ok()) << config.error().ToString();
  auto model = models::MakeModel(*config);
  EXPECT_TRUE(model.ok()) << model.error().ToString();
  return *std::move(model);
}

TEST(NkipyLayout, AFamilyWithoutHeadsIsNotKnown) {
  const auto refused = RankTensors(WithoutHeads(), {2}, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("is not known"));
}

TEST(NkipyFiles, AreNamedByTheRank) {
  EXPECT_EQ(ShardFileName(12), "shard_12.safetensors");
  EXPECT_EQ(RankOfFile("shard_12.safetensors"), 12);
  for (const char* name : {"shard_.safetensors", "shard_01.safetensors", "shard_-1.safetensors",
                           "shard_1.bin", "shard.safetensors", "shard_99999999999.safetensors"})
    EXPECT_EQ(RankOfFile(name), std::nullopt) << name;
}

}  // namespace
}  // namespace nxdkit::nkipy
