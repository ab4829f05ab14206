// The layout of a vLLM Neuron engine, by cases worked out by hand. Random configurations against a
// port of the loader: tests/interop/neuron_interop.py.
#include "formats/vllm_neuron/rank_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/model_layouts.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::vllm_neuron {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_util::ExpectError;
using testing_util::ModelOf;
using testing_util::SmallConfig;
using testing_util::SmallMoeConfig;

std::vector<TensorLayout> Tensors(const models::Model& model, const Geometry& geometry, int core) {
  auto tensors = CoreTensors(model, geometry, core);
  EXPECT_TRUE(tensors.ok()) << tensors.error().ToString();
  return tensors.ok() ? *std::move(tensors) : std::vector<TensorLayout>();
}

TensorLayout Tensor(const models::Model& model, const Geometry& geometry, int core,
                    const std::string& name) {
  for (TensorLayout& tensor : Tensors(model, geometry, core))
    if (tensor.name == name) return tensor;
  ADD_FAILURE() << "no " << name << " on core " << core;
  return {};
}

// "k[2:4]" of each piece: the last letter of the projection, and its rows.
std::vector<std::string> RowsOf(const models::Model& model, const TensorLayout& tensor) {
  std::vector<std::string> rows;
  for (const Piece& piece : tensor.pieces) {
    const std::string& name = model.params[piece.param].name;
    const size_t end = name.find("_proj");
    rows.push_back(name.substr(end - 1, 1) + "[" + std::to_string(piece.logical.lo[0]) + ":" +
                   std::to_string(piece.logical.lo[0] + piece.logical.extent[0]) + "]");
  }
  return rows;
}

const std::string kLayer = "model.layers.1.";
const std::string kQkv = kLayer + "self_attn.qkv_proj_weight";

// 8 query and 4 key heads of 2 rows.
TEST(CoreTensors, ProjectionsAreTransposedAndQkvIsOneTensor) {
  const models::Model model = ModelOf(SmallConfig());
  const TensorLayout qkv = Tensor(model, {2}, 1, kQkv);
  EXPECT_THAT(qkv.shape, ElementsAre(16, 8 + 4 + 4));
  EXPECT_THAT(RowsOf(model, qkv), ElementsAre("q[8:16]", "k[4:8]", "v[4:8]"));
  EXPECT_THAT(qkv.pieces[0].axes, ElementsAre(1, 0));
  EXPECT_THAT(Tensor(model, {2}, 1, kLayer + "self_attn.o_proj_weight").shape, ElementsAre(8, 16));
  EXPECT_THAT(Tensor(model, {2}, 1, kLayer + "mlp.gate_proj_weight").shape, ElementsAre(16, 12));
  EXPECT_THAT(Tensor(model, {2}, 1, kLayer + "mlp.down_proj_weight").shape, ElementsAre(12, 16));
}

TEST(CoreTensors, NeighboursShareAKeyHead) {
  const models::Model model = ModelOf(SmallConfig());
  EXPECT_THAT(RowsOf(model, Tensor(model, {8}, 5, kQkv)),
              ElementsAre("q[10:12]", "k[4:6]", "v[4:6]"));
}

// 12 query and 4 key heads over 6: 6 / 4 is 1, so rank r reads head r, and ranks 4 and 5 none.
TEST(CoreTensors, AHeadThatIsNotThereIsZerosWhereThereAreExperts) {
  const models::Model model = ModelOf(
      SmallMoeConfig("qwen3_moe", {{"num_attention_heads", 12}, {"moe_intermediate_size", 12}}));
  EXPECT_THAT(RowsOf(model, Tensor(model, {6}, 3, kQkv)),
              ElementsAre("q[12:16]", "k[6:8]", "v[6:8]"));
  const TensorLayout none = Tensor(model, {6}, 4, kQkv);
  EXPECT_THAT(RowsOf(model, none), ElementsAre("q[16:20]"));
  ASSERT_EQ(none.fills.size(), 2u);
  EXPECT_EQ(BoxText(none.fills[0].stored), "[0:16, 4:6]");
  EXPECT_EQ(none.fills[0].value, 0);
}

// 16 query and 8 key heads of 8 rows over 2 ranks in 2 groups: 4 and 2 heads each.
TEST(CoreTensors, AttentionDpCutsKeysToo) {
  const models::Model model = ModelOf(
      SmallConfig({{"num_attention_heads", 16}, {"num_key_value_heads", 8}, {"head_dim", 8}}));
  const TensorLayout qkv = Tensor(model, {.tp = 2, .attention_dp = 2}, 3, kQkv);  // dp 1, rank 1
  EXPECT_THAT(qkv.shape, ElementsAre(16, 64));
  EXPECT_THAT(RowsOf(model, qkv), ElementsAre("q[96:128]", "k[48:64]", "v[48:64]"));
  EXPECT_THAT(RowsOf(model, Tensor(model, {.tp = 2, .attention_dp = 2}, 1, kQkv)),  // dp 0, rank 1
              ElementsAre("q[64:96]", "k[32:48]", "v[32:48]"));
}

// q is cut into 2 * 2 parts, part = dp + rank * 2; 6 keys by the rank alone: 4 does not divide 6.
TEST(CoreTensors, AttentionDpCutsQueriesFurther) {
  const models::Model model =
      ModelOf(SmallConfig({{"num_attention_heads", 12}, {"num_key_value_heads", 6}}));
  const Geometry geometry{.tp = 2, .attention_dp = 2};
  const int core = 3;  // dp 1, rank 1
  EXPECT_EQ(CoreText(geometry, core), "dp 1 rank 1");
  EXPECT_THAT(RowsOf(model, Tensor(model, geometry, core, kQkv)),
              ElementsAre("q[18:24]", "k[6:12]", "v[6:12]"));
  EXPECT_THAT(RowsOf(model, Tensor(model, geometry, 1, kQkv)),
              ElementsAre("q[12:18]", "k[6:12]", "v[6:12]"));
}

// 25 rows over 4: an embedding of 7 rows, the last with 4 and zeros, and a head of 6.
TEST(CoreTensors, TheVocabularyIsPaddedAndTheHeadIsCutShort) {
  const models::Model model = ModelOf(SmallConfig({{"vocab_size", 25}}));
  const TensorLayout embedding = Tensor(model, {4}, 3, "model.embed_tokens.weight");
  EXPECT_THAT(embedding.shape, ElementsAre(7, 16));
  EXPECT_THAT(embedding.pieces[0].logical.lo, ElementsAre(21, 0));
  ASSERT_EQ(embedding.fills.size(), 1u);
  EXPECT_EQ(BoxText(embedding.fills[0].stored), "[4:7, 0:16]");
  const TensorLayout head = Tensor(model, {4}, 3, "lm_head.weight");
  EXPECT_THAT(head.shape, ElementsAre(6, 16));
  EXPECT_THAT(head.pieces[0].logical.lo, ElementsAre(18, 0));
}

TEST(CoreTensors, ATiedModelHasAHeadOfTheEmbedding) {
  for (const char* family : {"llama", "qwen3"}) {
    const models::Model model =
        ModelOf(SmallConfig({{"model_type", family}, {"tie_word_embeddings", true}}));
    const TensorLayout head = Tensor(model, {4}, 1, "lm_head.weight");
    EXPECT_EQ(model.params[head.pieces[0].param].name, "model.embed_tokens.weight") << family;
  }
}

// 4 experts over 2 times 2 ranks.
TEST(CoreTensors, ExpertsAreSpreadAndCut) {
  const models::Model model = ModelOf(SmallMoeConfig("qwen3_moe"));
  const Geometry geometry{.tp = 4, .ep = 2};
  const TensorLayout gate_up =
      Tensor(model, geometry, 3, kLayer + "mlp.experts.gate_up_proj_weight");
  EXPECT_THAT(gate_up.shape, ElementsAre(2, 16, 2 * 4));
  EXPECT_EQ(model.params[gate_up.pieces[0].param].name, kLayer + "mlp.experts.2.gate_proj.weight");
  EXPECT_THAT(gate_up.pieces[0].logical.lo, ElementsAre(4, 0));
  EXPECT_THAT(gate_up.pieces[1].stored_lo, ElementsAre(0, 0, 4));  // up, next to gate
  EXPECT_THAT(Tensor(model, geometry, 3, kLayer + "mlp.experts.down_proj_weight").shape,
              ElementsAre(2, 4, 16));
  EXPECT_EQ(Tensor(model, geometry, 0, kLayer + "mlp.experts.router_weight").dtype, Dtype::kBF16);
  EXPECT_EQ(Tensor(model, geometry, 0, kLayer + "self_attn.q_norm.weight").dtype, Dtype::kF32);
  EXPECT_THAT(
      Tensor(model, geometry, 0, kLayer + "mlp.experts.post_attention_layernorm.weight").shape,
      ElementsAre(16));
}

TEST(CoreTensors, EveryElementOfACoreHasOnePlace) {
  const models::Model models[] = {
      ModelOf(SmallConfig({{"vocab_size", 25}})),
      ModelOf(SmallConfig({{"model_type", "qwen3"}, {"tie_word_embeddings", true}})),
      ModelOf(SmallMoeConfig("qwen3_moe"))};
  for (const models::Model& model : models)
    for (const int tp : {1, 2, 4, 8}) {
      Layout layout;
      for (int core = 0; core < tp; ++core) {
        layout.files.push_back({"", core, -1});
        for (TensorLayout& tensor : Tensors(model, {tp}, core)) {
          tensor.file = static_cast<uint32_t>(core);
          layout.tensors.push_back(std::move(tensor));
        }
      }
      const Status status = CheckLayout(model.Logical(), layout);
      EXPECT_TRUE(status.ok()) << model.config.model_type << " tp " << tp << ": "
                               << status.error().ToString();
    }
}

TEST(CoreTensors, RefusesWhatHasNoLayout) {
  const models::Model model = ModelOf(SmallConfig());
  EXPECT_TRUE(ExpectError(CoreTensors(model, {3}, 0), Errc::kUnsupported,
                          "8 query heads cannot be split over tp 3"));
  EXPECT_TRUE(ExpectError(CoreTensors(model, {.tp = 8, .attention_dp = 2}, 0), Errc::kUnsupported,
                          "8 query heads cannot be split over tp 8 times attention dp 2"));
  EXPECT_TRUE(ExpectError(CoreTensors(model, {.tp = 2, .ep = 2}, 0), Errc::kUnsupported,
                          "has no experts to spread"));
  EXPECT_TRUE(ExpectError(CoreTensors(ModelOf(SmallConfig({{"intermediate_size", 25}})), {2}, 0),
                          Errc::kUnsupported, "intermediate size 25"));
  EXPECT_TRUE(ExpectError(
      CoreTensors(ModelOf(SmallConfig({{"num_attention_heads", 6}, {"num_key_value_heads", 3}})),
                  {2}, 0),
      Errc::kUnsupported, "3 key heads and tp 2: neither divides the other"));
  EXPECT_TRUE(ExpectError(CoreTensors(ModelOf(SmallConfig({{"num_attention_heads", 12}})), {6}, 0),
                          Errc::kUnsupported, "fails with an error on the shape"));
}

// The text of a family may have the view but no heads.
models::Model WithoutHeads() {
  constexpr const char* kText =
      "family x; match X\nlet H = hidden_size; let V = vocab_size\nall model.norm H\n"
      "view vllm_neuron\nrename a. b.\n";
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

TEST(CoreTensors, NamesTheFamiliesThatAreKnown) {
  EXPECT_TRUE(ExpectError(CoreTensors(WithoutHeads(), {2}, 0), Errc::kUnsupported, "is not known"));
  const auto refused = CoreTensors(ModelOf(SmallConfig({{"model_type", "qwen2"}})), {2}, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::kUnsupported);
  EXPECT_EQ(refused.error().hint(), "known from the 0.24 sources are llama, qwen3, qwen3_moe");
  const models::Model mixed = ModelOf(SmallMoeConfig("qwen3_moe", {{"mlp_only_layers", {1}}}));
  EXPECT_TRUE(
      ExpectError(CoreTensors(mixed, {2}, 0), Errc::kUnsupported, "layer 1 has no experts"));
  const models::Model tied = ModelOf(SmallMoeConfig("qwen3_moe", {{"tie_word_embeddings", true}}));
  EXPECT_TRUE(ExpectError(CoreTensors(tied, {2}, 0), Errc::kUnsupported, "a tied qwen3_moe model"));
}

std::vector<std::string> Faults(const nlohmann::json& config, const Geometry& geometry) {
  std::vector<std::string> out;
  for (const SizeFault& fault : SizeFaults(ModelOf(config).config, geometry))
    out.push_back(fault.check + ": " + fault.message + (fault.has_layout ? "" : " (no layout)") +
                  (fault.is_advice ? " (advice)" : ""));
  return out;
}

TEST(SizeFaults, AreTheRulesOfTheEngine) {
  EXPECT_THAT(Faults(SmallConfig(), {4}), IsEmpty());
  EXPECT_THAT(
      Faults(SmallConfig(), {8}),
      ElementsAre("heads: 1 query head on each core (8 over tp 8): the vendor's porting guide asks "
                  "for an even number of query heads on a core; it is loaded anyway (advice)"));
  EXPECT_THAT(Faults(SmallConfig({{"num_attention_heads", 12}}), {6}),
              ElementsAre("key heads: 4 key heads and tp 6: neither divides the other, so the "
                          "loader fails with an error on the shape of "
                          "model.layers.0.self_attn.qkv_proj_weight on ranks 4 to 5 (no layout)"));
  EXPECT_THAT(Faults(SmallMoeConfig("qwen3_moe",
                                    {{"num_attention_heads", 12}, {"moe_intermediate_size", 12}}),
                     {6}),
              ElementsAre("key heads: 4 key heads and tp 6: neither divides the other, so query "
                          "heads are paired with other heads' keys"));
  EXPECT_THAT(Faults(SmallMoeConfig("qwen3_moe"), {.tp = 4, .ep = 3}),
              ElementsAre("experts: tp 4 cannot be split over ep 3 (no layout)"));
  EXPECT_THAT(Faults(SmallMoeConfig("qwen3_moe", {{"num_experts", 5}, {"num_local_experts", 5}}),
                     {.tp = 2, .ep = 2}),
              ElementsAre("experts: 5 experts over ep 2: 2 each, and the last 1 are on no core"));
}

TEST(ParamKeys, AreReadAsTheyAreWritten) {
  const Geometry geometry{.tp = 4, .attention_dp = 2};
  const std::string key = ParamKey(geometry, 6, "model.norm.weight");
  EXPECT_EQ(key, "dp1:tp2:model.norm.weight");
  const auto place = ParseParamKey(key);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->core.dp, 1);
  EXPECT_EQ(place->core.rank, 2);
  EXPECT_EQ(place->name, "model.norm.weight");
  for (const char* other : {"", "dp0", "dp0:", "dp0:tp", "dp0:tp1", "dp0:pp0:pcp0:tp1:w",
                            "dpx:tp1:w", "dp0:tp-1:w", "tp1:dp0:w"})
    EXPECT_FALSE(ParseParamKey(other)) << other;
}

TEST(Assumed, TellsWhatNoSourceSays) {
  EXPECT_EQ(Assumed({.tp = 4}), "");
  EXPECT_EQ(Assumed({.tp = 4, .ep = 4}), "");
  EXPECT_EQ(Assumed({.tp = 4, .ep = 2}), "rank r is assumed to be expert parallel rank r / 2");
  EXPECT_EQ(Assumed({.tp = 4, .attention_dp = 2}), "");
}

}  // namespace
}  // namespace nxdkit::vllm_neuron
