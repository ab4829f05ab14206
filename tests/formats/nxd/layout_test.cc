// Names, shapes and stages of an NxD set in every style.
#include "formats/nxd/nxd_layout.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "tests/formats/model_layouts.h"
#include "tests/formats/nxd/geometries.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::nxd {
namespace {

using models::Hardware;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing_util::ExpectError;
using testing_util::ModelOf;
using testing_util::SmallConfig;

std::vector<RankTensor> Tensors(const models::Model& model, const Geometry& geometry, int rank = 0,
                                bool tied_head = false) {
  auto tensors = RankTensors(model, geometry, rank, tied_head);
  EXPECT_TRUE(tensors.ok()) << tensors.error().ToString();
  return tensors.ok() ? *std::move(tensors) : std::vector<RankTensor>();
}

// "name [shape]" of the tensors of layer 0, without "model.layers.0.".
std::vector<std::string> LayerNames(const models::Model& model, const Geometry& geometry,
                                    const std::string& prefix = "model.layers.0.") {
  std::vector<std::string> names;
  for (const RankTensor& tensor : Tensors(model, geometry))
    if (tensor.layout.name.starts_with(prefix))
      names.push_back(tensor.layout.name.substr(prefix.size()) + " " +
                      ShapeText(tensor.layout.shape));
  return names;
}

const char* const kRest[] = {"self_attn.o_proj.weight [16, 8]", "mlp.gate_up_proj.weight [24, 16]",
                             "mlp.down_proj.weight [16, 12]", "input_layernorm.weight [16]",
                             "post_attention_layernorm.weight [16]"};

std::vector<std::string> WithRest(std::vector<std::string> names) {
  names.insert(names.end(), std::begin(kRest), std::end(kRest));
  return names;
}

TEST(Names, OfEveryQkvStyle) {
  const models::Model gqa = ModelOf(SmallConfig());
  EXPECT_THAT(LayerNames(gqa, Of(2, QkvStyle::kSeparate)),
              ElementsAreArray(
                  WithRest({"self_attn.q_proj.weight [8, 16]", "self_attn.k_proj.weight [4, 16]",
                            "self_attn.v_proj.weight [4, 16]"})));
  EXPECT_THAT(LayerNames(gqa, Of(2, QkvStyle::kLinear, 2)),
              ElementsAreArray(WithRest({"self_attn.qkv_proj.weight_q [8, 16]",
                                         "self_attn.qkv_proj.weight_k [8, 16]",
                                         "self_attn.qkv_proj.weight_v [8, 16]"})));
  EXPECT_THAT(LayerNames(gqa, Of(2, QkvStyle::kFused, 2)),
              ElementsAreArray(WithRest({"self_attn.qkv_proj.weight_qkv [24, 16]"})));
  const models::Model mha = ModelOf(SmallConfig({{"num_key_value_heads", 8}}));
  EXPECT_THAT(LayerNames(mha, Of(2, QkvStyle::kCoalesced)),
              ElementsAreArray(WithRest({"self_attn.qkv_proj.weight [24, 16]"})));
}

TEST(Names, OfBiases) {
  const models::Model qwen = ModelOf(SmallConfig({{"model_type", "qwen2"}}));
  const auto starts = [&](const Geometry& geometry) {
    std::vector<std::string> names = LayerNames(qwen, geometry);
    names.resize(names.size() - std::size(kRest));
    return names;
  };
  EXPECT_THAT(
      starts(Of(2, QkvStyle::kLinear)),
      ElementsAre("self_attn.qkv_proj.weight_q [8, 16]", "self_attn.qkv_proj.weight_k [4, 16]",
                  "self_attn.qkv_proj.weight_v [4, 16]", "self_attn.qkv_proj.bias_q [8]",
                  "self_attn.qkv_proj.bias_k [4]", "self_attn.qkv_proj.bias_v [4]"));
  EXPECT_THAT(starts(Of(2, QkvStyle::kFused)), ElementsAre("self_attn.qkv_proj.weight_qkv [16, 16]",
                                                           "self_attn.qkv_proj.bias_qkv [16]"));
  EXPECT_THAT(starts(Of(2, QkvStyle::kSeparate)),
              // Three modules, each with its weight and its bias.
              ElementsAre("self_attn.q_proj.weight [8, 16]", "self_attn.q_proj.bias [8]",
                          "self_attn.k_proj.weight [4, 16]", "self_attn.k_proj.bias [4]",
                          "self_attn.v_proj.weight [4, 16]", "self_attn.v_proj.bias [4]"));
}

TEST(Names, OfGateAndUpKeptApart) {
  Geometry geometry = Of(2, QkvStyle::kSeparate);
  geometry.fused_gate_up = false;
  const auto names = LayerNames(ModelOf(SmallConfig()), geometry);
  EXPECT_THAT(names, ::testing::Contains("mlp.gate_proj.weight [12, 16]"));
  EXPECT_THAT(names, ::testing::Contains("mlp.up_proj.weight [12, 16]"));
}

TEST(Names, MegatronOfGroupedHeads) {
  Geometry geometry = Of(2, QkvStyle::kSeparate);
  geometry.names = NameStyle::kMegatron;
  std::vector<std::string> names;
  const models::Model model = ModelOf(SmallConfig({{"num_hidden_layers", 1}}));
  for (const RankTensor& tensor : Tensors(model, geometry))
    names.push_back(tensor.layout.name + " " + ShapeText(tensor.layout.shape));
  const std::string layer = "language_model.encoder.layers.0.";
  EXPECT_THAT(names, ElementsAre("language_model.embedding.word_embeddings.weight [12, 16]",
                                 layer + "self_attention.query.weight [8, 16]",
                                 layer + "self_attention.key_value.weight [8, 16]",
                                 layer + "self_attention.dense.weight [16, 8]",
                                 layer + "mlp.dense_h_to_4h.weight [24, 16]",
                                 layer + "mlp.dense_4h_to_h.weight [16, 12]",
                                 layer + "input_layernorm.weight [16]",
                                 layer + "post_attention_layernorm.weight [16]",
                                 "language_model.encoder.final_layernorm.weight [16]",
                                 "language_model.output_layer.weight [12, 16]"));
}

TEST(Names, MegatronOfOneKeyHeadPerQueryHead) {
  Geometry geometry = Of(2, QkvStyle::kSeparate);
  geometry.names = NameStyle::kMegatron;
  const auto names = LayerNames(ModelOf(SmallConfig({{"num_key_value_heads", 8}})), geometry,
                                "language_model.encoder.layers.0.self_attention.");
  EXPECT_THAT(names, ElementsAre("query_key_value.weight [24, 16]", "dense.weight [16, 8]"));
}

TEST(Names, ShardFilesHaveAtLeastTwoDigits) {
  EXPECT_EQ(ShardFileName(3, 0), "dp_rank_00_tp_rank_03_pp_rank_00.pt");
  EXPECT_EQ(ShardFileName(123, 12), "dp_rank_00_tp_rank_123_pp_rank_12.pt");
}

// Llama 3 8B at tp 32 with kv multiplier 4.
TEST(Shapes, AreThoseOfTheReferenceExample) {
  const models::Model model = ModelOf({{"model_type", "llama"},
                                       {"hidden_size", 4096},
                                       {"intermediate_size", 14336},
                                       {"num_hidden_layers", 1},
                                       {"num_attention_heads", 32},
                                       {"num_key_value_heads", 8},
                                       {"vocab_size", 128256}});
  std::map<std::string, std::string> shapes;
  for (const QkvStyle style : {QkvStyle::kLinear, QkvStyle::kFused})
    for (const RankTensor& tensor : Tensors(model, Of(32, style, 4), 31))
      shapes[tensor.layout.name] = ShapeText(tensor.layout.shape);
  const std::string layer = "model.layers.0.";
  EXPECT_EQ(shapes["model.embed_tokens.weight"], "[4008, 4096]");
  EXPECT_EQ(shapes["lm_head.weight"], "[4008, 4096]");
  EXPECT_EQ(shapes[layer + "self_attn.qkv_proj.weight_q"], "[128, 4096]");
  EXPECT_EQ(shapes[layer + "self_attn.qkv_proj.weight_k"], "[128, 4096]");
  EXPECT_EQ(shapes[layer + "self_attn.qkv_proj.weight_v"], "[128, 4096]");
  EXPECT_EQ(shapes[layer + "self_attn.qkv_proj.weight_qkv"], "[384, 4096]");
  EXPECT_EQ(shapes[layer + "self_attn.o_proj.weight"], "[4096, 128]");
  EXPECT_EQ(shapes[layer + "mlp.gate_up_proj.weight"], "[896, 4096]");
  EXPECT_EQ(shapes[layer + "mlp.down_proj.weight"], "[4096, 448]");
  EXPECT_EQ(shapes[layer + "input_layernorm.weight"], "[4096]");
}

// The source of a row (or column) of the stored tensor: "q_proj 3" for row 3 of q_proj.
std::vector<std::string> Lines(const models::Model& model, const TensorLayout& tensor, int dim) {
  std::vector<std::string> lines(static_cast<size_t>(tensor.shape[dim]), "nothing");
  for (const Piece& piece : tensor.pieces) {
    std::string name = model.params[piece.param].name;
    name.erase(name.rfind('.'));
    name.erase(0, name.rfind('.') + 1);
    for (int64_t i = 0; i < piece.logical.extent[dim]; ++i)
      lines[piece.stored_lo[dim] + i] = fmt::format("{} {}", name, piece.logical.lo[dim] + i);
  }
  return lines;
}

std::vector<std::string> Range(const std::string& name, int64_t from, int64_t count) {
  std::vector<std::string> lines;
  for (int64_t i = 0; i < count; ++i) lines.push_back(fmt::format("{} {}", name, from + i));
  return lines;
}

const TensorLayout& Named(const std::vector<RankTensor>& tensors, std::string_view end) {
  for (const RankTensor& tensor : tensors)
    if (tensor.layout.name.ends_with(end)) return tensor.layout;
  ADD_FAILURE() << "no tensor " << end;
  return tensors.front().layout;
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Rows, GateUpIsTheRanksSliceOfEach) {
  const models::Model model = ModelOf(SmallConfig());
  const auto tensors = Tensors(model, Of(4, QkvStyle::kSeparate), 2);
  EXPECT_EQ(Lines(model, Named(tensors, "layers.0.mlp.gate_up_proj.weight"), 0),
            Range("gate_proj", 12, 6) + Range("up_proj", 12, 6));
  EXPECT_EQ(Lines(model, Named(tensors, "layers.0.mlp.down_proj.weight"), 1),
            Range("down_proj", 12, 6));
  EXPECT_EQ(Lines(model, Named(tensors, "embed_tokens.weight"), 0), Range("embed_tokens", 12, 6));
  EXPECT_EQ(Lines(model, Named(tensors, "lm_head.weight"), 0), Range("lm_head", 12, 6));
}

// 8 query heads, 4 key heads, tp 8, m 2, two rows per head: rank 5 of trn1 has query head 3, rank 5
// of trn2 head 5; the columns of o_proj belong to the same head.
TEST(Rows, FusedRowsAndOutputColumnsFollowTheHeads) {
  const models::Model model = ModelOf(SmallConfig({{"vocab_size", 8}}));
  struct Row {
    Hardware hardware;
    int64_t query, key;
  };
  for (const Row& row : {Row{Hardware::kTrn1, 3, 1}, Row{Hardware::kTrn2, 5, 2}}) {
    const auto tensors = Tensors(model, Of(8, QkvStyle::kFused, 2, row.hardware), 5);
    EXPECT_EQ(Lines(model, Named(tensors, "layers.1.self_attn.qkv_proj.weight_qkv"), 0),
              Range("q_proj", 2 * row.query, 2) + Range("k_proj", 2 * row.key, 2) +
                  Range("v_proj", 2 * row.key, 2));
    EXPECT_EQ(Lines(model, Named(tensors, "layers.1.self_attn.o_proj.weight"), 1),
              Range("o_proj", 2 * row.query, 2));
  }
}

// One number for each head, and rows of each head's norm: they are placed like the heads.
TEST(Rows, WhateverIsOfAHeadFollowsIt) {
  const models::Model gpt_oss = ModelOf(SmallConfig({{"model_type", "gpt_oss"},
                                                     {"architectures", {"GptOssForCausalLM"}},
                                                     {"num_key_value_heads", 2},
                                                     {"num_local_experts", 4}}));
  const models::Model cohere = ModelOf(SmallConfig({{"model_type", "cohere"},
                                                    {"architectures", {"CohereForCausalLM"}},
                                                    {"num_key_value_heads", 2},
                                                    {"use_qk_norm", true}}));
  // Query heads 0 1, 4 5, 2 3, 6 7, and key heads 0, 1, 0, 1.
  constexpr int64_t kQuery[] = {0, 4, 2, 6};
  for (int rank = 0; rank < 4; ++rank) {
    SCOPED_TRACE(rank);
    const Geometry geometry = Of(4, QkvStyle::kLinear, 2, Hardware::kTrn1);
    const auto sinks = Tensors(gpt_oss, geometry, rank);
    EXPECT_EQ(Lines(gpt_oss, Named(sinks, "layers.0.self_attn.qkv_proj.weight_q"), 0),
              Range("q_proj", 2 * kQuery[rank], 4));
    EXPECT_EQ(Lines(gpt_oss, Named(sinks, "layers.0.self_attn.sinks"), 0),
              Range("self_attn", kQuery[rank], 2));
    const auto norms = Tensors(cohere, geometry, rank);
    EXPECT_EQ(Lines(cohere, Named(norms, "layers.0.self_attn.q_norm.weight"), 0),
              Range("q_norm", kQuery[rank], 2));
    EXPECT_EQ(Lines(cohere, Named(norms, "layers.0.self_attn.k_norm.weight"), 0),
              Range("k_norm", rank % 2, 1));
  }
}

TEST(Rows, MegatronKeyValueIsAllKeysThenAllValues) {
  Geometry geometry = Of(2, QkvStyle::kSeparate);
  geometry.names = NameStyle::kMegatron;
  const models::Model model = ModelOf(SmallConfig());
  const auto tensors = Tensors(model, geometry, 1);
  EXPECT_EQ(Lines(model, Named(tensors, "layers.0.self_attention.key_value.weight"), 0),
            Range("k_proj", 4, 4) + Range("v_proj", 4, 4));
}

using Stages = std::vector<std::vector<int64_t>>;

Stages LayersOfRanks(int64_t layers, int pp, int vpp) {
  Stages ranks(static_cast<size_t>(pp));
  for (int64_t layer = 0; layer < layers; ++layer) {
    const Result<int> rank = PipelineRank(layer, layers, pp, vpp);
    EXPECT_TRUE(rank.ok()) << rank.error().ToString();
    ranks[*rank].push_back(layer);
  }
  return ranks;
}

TEST(Pipeline, GoldensOfTheConverter) {
  EXPECT_EQ(LayersOfRanks(10, 4, 1), (Stages{{0, 1}, {2, 3}, {4, 5, 6}, {7, 8, 9}}));
  EXPECT_EQ(LayersOfRanks(10, 2, 2), (Stages{{0, 1, 4, 5, 6}, {2, 3, 7, 8, 9}}));
  EXPECT_EQ(LayersOfRanks(10, 4, 2), (Stages{{0, 4}, {1, 5}, {2, 6, 7}, {3, 8, 9}}));
  const Stages nineteen = LayersOfRanks(19, 4, 1);
  EXPECT_EQ(nineteen[0].back(), 3);
  EXPECT_EQ(nineteen[1].back(), 8);
  EXPECT_EQ(nineteen[2].back(), 13);
  const Stages forty = LayersOfRanks(40, 4, 1);
  EXPECT_EQ(forty[0].back(), 9);
  EXPECT_EQ(forty[1].back(), 19);
  EXPECT_EQ(forty[2].back(), 29);
}

TEST(Pipeline, FewerLayersThanStagesIsRefused) {
  ExpectError(PipelineRank(0, 3, 2, 2), Errc::kUnsupported,
              "3 layers cannot fill 4 pipeline stages (pp 2 times vpp 2)");
}

TEST(Pipeline, EmbeddingIsOnTheFirstRankHeadAndNormOnTheLast) {
  const models::Model model =
      ModelOf(SmallConfig({{"num_hidden_layers", 5}, {"tie_word_embeddings", true}}));
  Geometry geometry = Of(2, QkvStyle::kSeparate);
  geometry.pp = 2;
  std::map<int, std::vector<std::string>> outside;  // of the layers
  std::map<int, std::set<int>> layers;
  for (const RankTensor& tensor : Tensors(model, geometry, 0, true))
    for (int p = 0; p < 2; ++p) {
      if (!OnPipelineRank(tensor, 5, geometry, p)) continue;
      if (tensor.layer < 0)
        outside[p].push_back(tensor.layout.name);
      else
        layers[p].insert(tensor.layer);
    }
  EXPECT_THAT(outside[0], ElementsAre("model.embed_tokens.weight"));
  EXPECT_THAT(outside[1], ElementsAre("model.norm.weight", "lm_head.weight"));
  EXPECT_THAT(layers[0], ElementsAre(0, 1));
  EXPECT_THAT(layers[1], ElementsAre(2, 3, 4)) << "the last stages hold one layer more";
}

TEST(Tied, TheHeadIsAReplicaOfTheEmbedding) {
  const models::Model model = ModelOf(SmallConfig({{"tie_word_embeddings", true}}));
  const auto tensors = Tensors(model, Of(2, QkvStyle::kSeparate), 1, true);
  EXPECT_EQ(Lines(model, Named(tensors, "lm_head.weight"), 0), Range("embed_tokens", 12, 12));
}

std::vector<std::string> ExpertNames(const Geometry& geometry, const std::string& prefix) {
  const models::Model model = ModelOf(testing_util::SmallMoeConfig("mixtral"));
  std::vector<std::string> names;
  for (const std::string& name : LayerNames(model, geometry, prefix))
    if (name.starts_with("mlp.")) names.push_back(name.substr(4));
  return names;
}

TEST(Names, OfExpertsInEveryStyle) {
  Geometry geometry = Of(2, QkvStyle::kSeparate);
  EXPECT_THAT(ExpertNames(geometry, "model.layers.1."),
              ElementsAre("router.linear_router.weight [4, 16]",
                          "expert_mlps.mlp_op.gate_up_proj.weight [4, 16, 24]",
                          "expert_mlps.mlp_op.down_proj.weight [4, 12, 16]"));
  const auto in_moe = ElementsAre("moe.router.linear_router.weight [4, 16]",
                                  "moe.expert_mlps.mlp_op.gate_up_proj.weight [4, 16, 24]",
                                  "moe.expert_mlps.mlp_op.down_proj.weight [4, 12, 16]");
  geometry.names = NameStyle::kNxdt;
  EXPECT_THAT(ExpertNames(geometry, "model.layers.1."), in_moe);
  geometry.names = NameStyle::kMegatron;
  EXPECT_THAT(ExpertNames(geometry, "language_model.encoder.layers.1."), in_moe)
      << "the reference converter renames them to what no module has";
}

// [expert, in, out], where Hugging Face has [out, in]: the rank's columns of gate, then those of
// up.
TEST(Experts, AreTransposedAndInterleavedByRank) {
  const models::Model model = ModelOf(testing_util::SmallMoeConfig("qwen3_moe"));
  Geometry geometry = Of(2, QkvStyle::kSeparate);
  geometry.ep = 2;
  const auto tensors = RankTensors(model, geometry, 1, false, 1);
  ASSERT_TRUE(tensors.ok()) << tensors.error().ToString();
  std::vector<std::string> pieces;
  for (const RankTensor& tensor : *tensors) {
    EXPECT_EQ(tensor.expert, tensor.layout.shape.size() == 3) << tensor.layout.name;
    if (!tensor.expert || tensor.layer != 0) continue;
    for (const Piece& piece : tensor.layout.pieces) {
      EXPECT_THAT(piece.axes, ElementsAre(2, 1));
      pieces.push_back(
          model.params[piece.param].name.substr(strlen("model.layers.0.mlp.experts.")) +
          BoxText(piece.logical) + " at " + ShapeText(piece.stored_lo));
    }
  }
  EXPECT_THAT(pieces, ElementsAre("2.gate_proj.weight[4:8, 0:16] at [0, 0, 0]",
                                  "3.gate_proj.weight[4:8, 0:16] at [1, 0, 0]",
                                  "2.up_proj.weight[4:8, 0:16] at [0, 0, 4]",
                                  "3.up_proj.weight[4:8, 0:16] at [1, 0, 4]",
                                  "2.down_proj.weight[0:16, 4:8] at [0, 0, 0]",
                                  "3.down_proj.weight[0:16, 4:8] at [1, 0, 0]"));
}

TEST(Experts, FilesOfExpertParallelRanksSaySo) {
  EXPECT_EQ(ShardFileName(3, 1), "dp_rank_00_tp_rank_03_pp_rank_01.pt");
  EXPECT_EQ(ShardFileName(3, 1, 12), "dp_rank_00_ep_rank_12_tp_rank_03_pp_rank_01.pt");
}

TEST(Experts, ThatCannotBeSplitAreRefused) {
  const models::Model model = ModelOf(testing_util::SmallMoeConfig("qwen3_moe"));
  Geometry geometry = Of(2, QkvStyle::kSeparate);
  geometry.ep = 3;
  ExpectError(RankTensors(model, geometry, 0, false), Errc::kUnsupported,
              "4 experts cannot be split evenly over ep 3");
  const models::Model odd =
      ModelOf(testing_util::SmallMoeConfig("qwen3_moe", {{"moe_intermediate_size", 7}}));
  ExpectError(RankTensors(odd, Of(2, QkvStyle::kSeparate), 0, false), Errc::kUnsupported,
              "the experts' intermediate size 7 cannot be split evenly over tp 2");
}

// "name shape" of a layer's cut tensors: fewer of them on two ranks than on one.
std::vector<std::string> CutNames(const models::Model& model, const std::string& prefix) {
  std::vector<std::string> whole = LayerNames(model, Of(1, QkvStyle::kSeparate), prefix);
  std::vector<std::string> cut = LayerNames(model, Of(2, QkvStyle::kSeparate), prefix);
  std::erase_if(cut, [&](const std::string& name) { return std::ranges::count(whole, name) > 0; });
  return cut;
}

TEST(GptNeox, IsCutHeadByHeadWithoutReordering) {
  const models::Model model =
      ModelOf(SmallConfig({{"model_type", "gpt_neox"}, {"architectures", {"GPTNeoXForCausalLM"}}}));
  EXPECT_THAT(CutNames(model, "gpt_neox.layers.1."),
              ElementsAre("attention.query_key_value.weight [24, 16]",
                          "attention.query_key_value.bias [24]", "attention.dense.weight [16, 8]",
                          "mlp.dense_h_to_4h.weight [12, 16]", "mlp.dense_h_to_4h.bias [12]",
                          "mlp.dense_4h_to_h.weight [16, 12]"));
  const auto tensors = Tensors(model, Of(2, QkvStyle::kSeparate), 1);
  for (const RankTensor& tensor : tensors) {
    if (tensor.layout.name != "gpt_neox.layers.0.attention.query_key_value.weight") continue;
    ASSERT_EQ(tensor.layout.pieces.size(), 1u);
    EXPECT_EQ(BoxText(tensor.layout.pieces[0].logical), "[24:48, 0:16]");
  }
  ExpectError(RankTensors(model, Of(3, QkvStyle::kSeparate), 0, false), Errc::kUnsupported,
              "8 query heads cannot be split over tp 3");
}

TEST(Bert, IsCutInItsAttentionOnlyAndKeepsItsAliases) {
  const models::Model model = ModelOf(SmallConfig({{"model_type", "bert"},
                                                   {"architectures", {"BertForPreTraining"}},
                                                   {"max_position_embeddings", 10},
                                                   {"type_vocab_size", 2},
                                                   {"tie_word_embeddings", true}}));
  EXPECT_THAT(
      CutNames(model, "bert."),
      ::testing::UnorderedElementsAre("encoder.layer.0.attention.self.query.weight [8, 16]",
                                      "encoder.layer.0.attention.self.query.bias [8]",
                                      "encoder.layer.0.attention.self.key.weight [8, 16]",
                                      "encoder.layer.0.attention.self.key.bias [8]",
                                      "encoder.layer.0.attention.self.value.weight [8, 16]",
                                      "encoder.layer.0.attention.self.value.bias [8]",
                                      "encoder.layer.0.attention.output.dense.weight [16, 8]",
                                      "encoder.layer.1.attention.self.query.weight [8, 16]",
                                      "encoder.layer.1.attention.self.query.bias [8]",
                                      "encoder.layer.1.attention.self.key.weight [8, 16]",
                                      "encoder.layer.1.attention.self.key.bias [8]",
                                      "encoder.layer.1.attention.self.value.weight [8, 16]",
                                      "encoder.layer.1.attention.self.value.bias [8]",
                                      "encoder.layer.1.attention.output.dense.weight [16, 8]"));
  const auto tensors = Tensors(model, Of(2, QkvStyle::kSeparate), 1, true);
  const size_t count = tensors.size();
  EXPECT_EQ(tensors[count - 2].layout.name, "cls.predictions.decoder.weight");
  EXPECT_EQ(tensors[count - 1].layout.name, "cls.predictions.decoder.bias");
}

struct Refusal {
  const char* name;
  nlohmann::json changes;
  Geometry geometry;
  const char* message;
  const char* tensor;
};

class RefusedGeometry : public ::testing::TestWithParam<Refusal> {};
TEST_P(RefusedGeometry, WithTheReason) {
  const Refusal& row = GetParam();
  const auto error =
      ExpectError(RankTensors(ModelOf(SmallConfig(row.changes)), row.geometry, 0, false),
                  Errc::kUnsupported, row.message);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), row.tensor);
}
INSTANTIATE_TEST_SUITE_P(
    Geometries, RefusedGeometry,
    ::testing::Values(
        Refusal{"Vocab",
                {{"vocab_size", 23}},
                Of(2, QkvStyle::kSeparate),
                "23 cannot be split evenly over tp 2; NxD training does not pad",
                "model.embed_tokens.weight"},
        Refusal{"Intermediate",
                {{"intermediate_size", 23}},
                Of(2, QkvStyle::kSeparate),
                "23 cannot be split evenly over tp 2",
                "model.layers.0.mlp.gate_proj.weight"},
        Refusal{"SeparateWithCopies",
                {},
                Of(4, QkvStyle::kSeparate, 2),
                "kv multiplier 2 needs the linear or fused q/k/v style, not separate",
                ""},
        Refusal{"CoalescedGroups",
                {},
                Of(2, QkvStyle::kCoalesced),
                "the coalesced q/k/v style is for models with one key head per query head; this "
                "one has 8 and 4",
                ""},
        Refusal{"MegatronWithCopies",
                {},
                Megatron(Of(8, QkvStyle::kLinear, 2)),
                "Megatron style sets have no replicated key heads; kv multiplier 2",
                ""},
        Refusal{"PartOfAHead",
                {},
                Of(8, QkvStyle::kSeparate),
                "4 key heads cannot be split over tp 8 without replication",
                ""},
        Refusal{"TooManyCopies",
                {},
                Of(8, QkvStyle::kLinear, 4),
                "8 query heads cannot be split over 4 key heads times kv multiplier 4",
                ""},
        Refusal{"Queries",
                {{"vocab_size", 48}},
                Of(3, QkvStyle::kLinear),
                "8 query heads cannot be split over tp 3",
                ""}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace nxdkit::nxd
