// Names, shapes and contents of rank shards: reference shapes, every option, and padding.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "formats/models/sample_model.h"
#include "formats/rollout/rollout_layout.h"
#include "tests/formats/memory_sink.h"
#include "tests/formats/model_layouts.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::rollout {
namespace {

using ::testing::ElementsAre;
using testing_util::ExpectError;
using testing_util::ModelOf;
using testing_util::SmallConfig;
using testing_util::SmallMoeConfig;

Geometry Of(int tp, bool fused = false) {
  Geometry geometry;
  geometry.tp = tp;
  geometry.fused_qkv = fused;
  return geometry;
}

std::vector<TensorLayout> Tensors(const models::Model& model, const Geometry& geometry,
                                  int rank = 0) {
  auto tensors = RankTensors(model, geometry, rank);
  EXPECT_TRUE(tensors.ok()) << tensors.error().ToString();
  return tensors.ok() ? *std::move(tensors) : std::vector<TensorLayout>();
}

std::map<std::string, std::string> Shapes(const models::Model& model, const Geometry& geometry,
                                          int rank = 0) {
  std::map<std::string, std::string> shapes;
  for (const TensorLayout& tensor : Tensors(model, geometry, rank))
    shapes[tensor.name] = ShapeText(tensor.shape);
  return shapes;
}

struct Reference {
  const char* model;
  const char* type;
  int hidden, intermediate, heads, kv_heads, head_dim, vocab, tp;
  int q, kv, fused, mlp, embed, head;  // rows of q, k, Wqkv, gate and lm_head; columns of embedding
};

class ReferenceShapes : public ::testing::TestWithParam<Reference> {};
TEST_P(ReferenceShapes, OfTheLastRank) {
  const Reference& row = GetParam();
  const models::Model model = ModelOf({{"model_type", row.type},
                                       {"hidden_size", row.hidden},
                                       {"intermediate_size", row.intermediate},
                                       {"num_hidden_layers", 1},
                                       {"num_attention_heads", row.heads},
                                       {"num_key_value_heads", row.kv_heads},
                                       {"head_dim", row.head_dim},
                                       {"vocab_size", row.vocab},
                                       {"tie_word_embeddings", true}});
  auto shapes = Shapes(model, Of(row.tp), row.tp - 1);
  const std::string layer = "layers.0.";
  const auto matrix = [](int rows, int columns) { return fmt::format("[{}, {}]", rows, columns); };
  const std::string qkv = layer + "self_attn.qkv_proj.";
  EXPECT_EQ(shapes[qkv + "q_proj.weight"], matrix(row.q, row.hidden));
  EXPECT_EQ(shapes[qkv + "k_proj.weight"], matrix(row.kv, row.hidden));
  EXPECT_EQ(shapes[qkv + "v_proj.weight"], matrix(row.kv, row.hidden));
  EXPECT_EQ(shapes[layer + "self_attn.o_proj.o_proj.weight"], matrix(row.hidden, row.q));
  EXPECT_EQ(shapes[layer + "mlp.gate_proj.weight"], matrix(row.mlp, row.hidden));
  EXPECT_EQ(shapes[layer + "mlp.up_proj.weight"], matrix(row.mlp, row.hidden));
  EXPECT_EQ(shapes[layer + "mlp.down_proj.weight"], matrix(row.hidden, row.mlp));
  EXPECT_EQ(shapes["embed_tokens.weight"], matrix(row.vocab, row.embed));
  EXPECT_EQ(shapes["lm_head.weight"], matrix(row.head, row.hidden));
  EXPECT_EQ(Shapes(model, Of(row.tp, true))[qkv + "Wqkv.weight"], matrix(row.fused, row.hidden));
}
INSTANTIATE_TEST_SUITE_P(
    Table, ReferenceShapes,
    ::testing::Values(Reference{"Llama-3.1-8B", "llama", 4096, 14336, 32, 8, 128, 128256, 2,  //
                                2048, 512, 3072, 7168, 2048, 64128},
                      Reference{"Llama-3.1-8B", "llama", 4096, 14336, 32, 8, 128, 128256, 8,  //
                                512, 128, 768, 1792, 512, 16032},
                      Reference{"Llama-3.1-8B", "llama", 4096, 14336, 32, 8, 128, 128256, 32,  //
                                128, 128, 384, 448, 128, 4008},
                      Reference{"Llama-3.1-70B", "llama", 8192, 28672, 64, 8, 128, 128256, 32,  //
                                256, 128, 512, 896, 256, 4008},
                      Reference{"Llama-3.2-1B", "llama", 2048, 8192, 32, 8, 64, 128256, 8,  //
                                256, 64, 384, 1024, 256, 16032},
                      Reference{"Qwen2.5-0.5B", "qwen2", 896, 4864, 14, 2, 64, 151936, 2,  //
                                448, 64, 576, 2432, 448, 75968},
                      Reference{"Qwen2.5-0.5B", "qwen2", 896, 4864, 14, 2, 64, 151936, 8,  //
                                128, 64, 256, 608, 112, 18992},
                      Reference{"Qwen2.5-7B", "qwen2", 3584, 18944, 28, 4, 128, 152064, 8,  //
                                512, 128, 768, 2368, 448, 19008},
                      Reference{"Qwen2.5-14B", "qwen2", 5120, 13824, 40, 8, 128, 152064, 32,  //
                                256, 128, 512, 432, 160, 4752},
                      Reference{"Qwen3-0.6B", "qwen3", 1024, 3072, 16, 8, 128, 151936, 8,  //
                                256, 128, 512, 384, 128, 18992},
                      Reference{"Qwen3-8B", "qwen3", 4096, 12288, 32, 8, 128, 151936, 2,  //
                                2048, 512, 3072, 6144, 2048, 75968},
                      Reference{"Qwen3-8B", "qwen3", 4096, 12288, 32, 8, 128, 151936, 8,  //
                                512, 128, 768, 1536, 512, 18992},
                      Reference{"Qwen3-32B", "qwen3", 5120, 25600, 64, 8, 128, 151936, 8,  //
                                1024, 128, 1280, 3200, 640, 18992}),
    [](const auto& row) {
      std::string name = fmt::format("{}tp{}", row.param.model, row.param.tp);
      std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
      return name;
    });

std::vector<std::string> Names(const models::Model& model, const Geometry& geometry) {
  std::vector<std::string> names;
  for (const TensorLayout& tensor : Tensors(model, geometry))
    names.push_back(tensor.name + " " + ShapeText(tensor.shape));
  return names;
}

TEST(Names, HaveNoModelPrefixAndNoFusedMlp) {
  const models::Model model = ModelOf(SmallConfig({{"num_hidden_layers", 1}}));
  EXPECT_THAT(
      Names(model, Of(2)),
      ElementsAre("embed_tokens.weight [24, 8]",
                  "layers.0.self_attn.qkv_proj.q_proj.weight [8, 16]",
                  "layers.0.self_attn.qkv_proj.k_proj.weight [4, 16]",
                  "layers.0.self_attn.qkv_proj.v_proj.weight [4, 16]",
                  "layers.0.self_attn.o_proj.o_proj.weight [16, 8]",
                  "layers.0.mlp.gate_proj.weight [12, 16]", "layers.0.mlp.up_proj.weight [12, 16]",
                  "layers.0.mlp.down_proj.weight [16, 12]", "layers.0.input_layernorm.weight [16]",
                  "layers.0.post_attention_layernorm.weight [16]", "norm.weight [16]",
                  "lm_head.weight [12, 16]", "layers.0.self_attn.rank_util.rank [1]",
                  "rank_util.rank [1]"));
}

TEST(Names, OfBiasesAndHeadNorms) {
  const models::Model qwen2 = ModelOf(SmallConfig({{"model_type", "qwen2"}}));
  auto apart = Shapes(qwen2, Of(4));
  EXPECT_EQ(apart["layers.1.self_attn.qkv_proj.q_proj.bias"], "[4]");
  EXPECT_EQ(apart["layers.1.self_attn.qkv_proj.k_proj.bias"], "[2]");
  EXPECT_EQ(apart["layers.1.self_attn.qkv_proj.v_proj.bias"], "[2]");
  EXPECT_EQ(Shapes(qwen2, Of(4, true))["layers.1.self_attn.qkv_proj.Wqkv.bias"], "[8]");
  const models::Model qwen3 = ModelOf(SmallConfig({{"model_type", "qwen3"}, {"head_dim", 6}}));
  auto norms = Shapes(qwen3, Of(4));
  EXPECT_EQ(norms["layers.0.self_attn.q_layernorm.weight"], "[6]");
  EXPECT_EQ(norms["layers.0.self_attn.k_layernorm.weight"], "[6]");
  EXPECT_FALSE(norms.contains("layers.0.self_attn.q_norm.weight"));
  const models::Model llama = ModelOf(SmallConfig({{"attention_bias", true}, {"mlp_bias", true}}));
  auto biases = Shapes(llama, Of(2));
  EXPECT_EQ(biases["layers.0.self_attn.o_proj.o_proj.bias"], "[16]") << "replicated";
  EXPECT_EQ(biases["layers.0.mlp.gate_proj.bias"], "[12]");
  EXPECT_EQ(biases["layers.0.mlp.down_proj.bias"], "[16]") << "replicated";
}

TEST(Names, Gemma3ScalesItsEmbeddingInAModuleOfItsOwn) {
  const models::Model model = ModelOf(SmallConfig({{"model_type", "gemma3_text"},
                                                   {"architectures", {"Gemma3ForCausalLM"}},
                                                   {"num_hidden_layers", 1},
                                                   {"tie_word_embeddings", true}}));
  EXPECT_THAT(
      Names(model, Of(2, true)),
      ElementsAre("embed_tokens.embedding.weight [24, 8]",
                  "layers.0.self_attn.qkv_proj.Wqkv.weight [16, 16]",
                  "layers.0.self_attn.o_proj.o_proj.weight [16, 8]",
                  "layers.0.self_attn.q_layernorm.weight [2]",
                  "layers.0.self_attn.k_layernorm.weight [2]",
                  "layers.0.mlp.gate_proj.weight [12, 16]", "layers.0.mlp.up_proj.weight [12, 16]",
                  "layers.0.mlp.down_proj.weight [16, 12]", "layers.0.input_layernorm.weight [16]",
                  "layers.0.post_attention_layernorm.weight [16]",
                  "layers.0.pre_feedforward_layernorm.weight [16]",
                  "layers.0.post_feedforward_layernorm.weight [16]", "norm.weight [16]",
                  "lm_head.weight [12, 16]", "layers.0.self_attn.rank_util.rank [1]",
                  "rank_util.rank [1]"));
}

// The row of Phi-3's matrices that holds a row of llama's q, k, v, gate or up.
std::pair<std::string, int64_t> InPhi3(const std::string& name, const models::ModelConfig& config) {
  const int64_t q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  for (const auto& [part, whole, at] : {std::tuple{".q_proj.", ".qkv_proj.", int64_t{0}},
                                        {".k_proj.", ".qkv_proj.", q},
                                        {".v_proj.", ".qkv_proj.", q + kv},
                                        {".gate_proj.", ".gate_up_proj.", int64_t{0}},
                                        {".up_proj.", ".gate_up_proj.", config.intermediate}})
    if (const size_t found = name.find(part); found != std::string::npos) {
      std::string in = name;
      return {in.replace(found, std::string(part).size(), whole), at};
    }
  return {name, 0};
}

// Phi-3 is llama with q, k and v in one matrix, and gate and up in another: each rank holds the
// same rows of them, under the same names.
TEST(Split, BundlesOfPhi3AreThoseOfLlama) {
  for (const int tp : {1, 2, 4, 8, 16})
    for (const bool fused : {false, true}) {
      SCOPED_TRACE(fmt::format("tp {} fused {}", tp, fused));
      const nlohmann::json odd = {{"intermediate_size", 23}, {"vocab_size", 25}};
      const models::Model llama = ModelOf(SmallConfig(odd));
      nlohmann::json config = SmallConfig(odd);
      config["model_type"] = "phi3";
      config["architectures"] = {"Phi3ForCausalLM"};
      const models::Model phi3 = ModelOf(config);
      const std::vector<TensorLayout> expected = Tensors(llama, Of(tp, fused), tp - 1);
      const std::vector<TensorLayout> found = Tensors(phi3, Of(tp, fused), tp - 1);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t t = 0; t < found.size(); ++t) {
        SCOPED_TRACE(expected[t].name);
        EXPECT_EQ(found[t].name, expected[t].name);
        EXPECT_EQ(found[t].shape, expected[t].shape);
        EXPECT_EQ(found[t].fills.size(), expected[t].fills.size());
        ASSERT_EQ(found[t].pieces.size(), expected[t].pieces.size());
        for (size_t p = 0; p < found[t].pieces.size(); ++p) {
          Piece piece = expected[t].pieces[p];
          const auto [name, row] = InPhi3(llama.params[piece.param].name, llama.config);
          piece.logical.lo[0] += row;
          EXPECT_EQ(phi3.params[found[t].pieces[p].param].name, name);
          EXPECT_EQ(BoxText(found[t].pieces[p].logical), BoxText(piece.logical));
          EXPECT_EQ(found[t].pieces[p].stored_lo, piece.stored_lo);
        }
      }
    }
}

TEST(Names, ShardFilesAreNotPadded) {
  EXPECT_EQ(ShardFileName(3), "tp3_sharded_checkpoint.safetensors");
  EXPECT_EQ(ShardFileName(31), "tp31_sharded_checkpoint.safetensors");
}

TEST(RankTensors, AreOfTheRankAndInt32) {
  const models::Model model = ModelOf(SmallConfig());
  Geometry geometry = Of(4);
  geometry.vocab_parallel = true;
  std::vector<std::string> names;
  for (const TensorLayout& tensor : Tensors(model, geometry, 3)) {
    if (!tensor.dtype) continue;
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.dtype, Dtype::kI32);
    EXPECT_EQ(tensor.shape, Shape{1});
    ASSERT_EQ(tensor.fills.size(), 1u);
    EXPECT_EQ(tensor.fills[0].value, 3);
  }
  EXPECT_THAT(names,
              ElementsAre("layers.0.self_attn.rank_util.rank", "layers.1.self_attn.rank_util.rank",
                          "rank_util.rank", "embed_tokens.rank_util.rank"));
}

TEST(Transposed, MatricesAreSlicedFirst) {
  const models::Model model = ModelOf(SmallConfig());
  Geometry geometry = Of(4, true);
  geometry.transposed_qkv = geometry.transposed_output = geometry.transposed_mlp = true;
  auto shapes = Shapes(model, geometry, 1);
  EXPECT_EQ(shapes["layers.0.self_attn.qkv_proj.Wqkv.weight"], "[16, 8]");
  EXPECT_EQ(shapes["layers.0.self_attn.o_proj.o_proj.weight"], "[4, 16]");
  EXPECT_EQ(shapes["layers.0.mlp.gate_proj.weight"], "[16, 6]");
  EXPECT_EQ(shapes["layers.0.mlp.up_proj.weight"], "[16, 6]");
  EXPECT_EQ(shapes["layers.0.mlp.down_proj.weight"], "[6, 16]");
}

TEST(VocabParallel, SplitsTheEmbeddingOverRows) {
  const models::Model model = ModelOf(SmallConfig({{"vocab_size", 23}}));
  Geometry geometry = Of(4);
  EXPECT_EQ(Shapes(model, geometry)["embed_tokens.weight"], "[23, 4]");
  geometry.vocab_parallel = true;
  EXPECT_EQ(Shapes(model, geometry, 3)["embed_tokens.weight"], "[6, 16]");
}

Geometry OfFlavor(int tp, Flavor flavor) {
  Geometry geometry = Of(tp);
  geometry.flavor = flavor;
  return geometry;
}

TEST(Experts, AreOneTensorOfRank3EachAndNotPadded) {
  const models::Model model = ModelOf(SmallMoeConfig("mixtral", {{"num_hidden_layers", 1}}));
  EXPECT_THAT(Names(model, Of(2)),
              ElementsAre("embed_tokens.weight [24, 8]",
                          "layers.0.self_attn.qkv_proj.q_proj.weight [8, 16]",
                          "layers.0.self_attn.qkv_proj.k_proj.weight [4, 16]",
                          "layers.0.self_attn.qkv_proj.v_proj.weight [4, 16]",
                          "layers.0.self_attn.o_proj.o_proj.weight [16, 8]",
                          "layers.0.mlp.router.linear_router.weight [4, 16]",
                          "layers.0.mlp.expert_mlps.mlp_op.gate_up_proj.weight [4, 16, 24]",
                          "layers.0.mlp.expert_mlps.mlp_op.down_proj.weight [4, 12, 16]",
                          "layers.0.input_layernorm.weight [16]",
                          "layers.0.post_attention_layernorm.weight [16]", "norm.weight [16]",
                          "lm_head.weight [12, 16]"));
}

TEST(Experts, RankTensorsDependOnTheProgram) {
  const auto ranks = [](const char* family, Flavor flavor, bool expert_ranks = true) {
    const models::Model model = ModelOf(SmallMoeConfig(family, {{"num_hidden_layers", 1}}));
    Geometry geometry = OfFlavor(2, flavor);
    geometry.expert_ranks = expert_ranks;
    std::vector<std::string> names;
    for (const TensorLayout& tensor : Tensors(model, geometry))
      if (tensor.dtype) names.push_back(tensor.name);
    return names;
  };
  const char* const kOfExperts = "layers.0.mlp.expert_mlps.spmd_rank.rank";
  const char* const kOfAttention = "layers.0.self_attn.rank_util.rank";
  EXPECT_THAT(ranks("mixtral", Flavor::kOptimum), ElementsAre());
  EXPECT_THAT(ranks("mixtral", Flavor::kNxdi), ElementsAre(kOfExperts, "rank_util.rank"));
  EXPECT_THAT(ranks("mixtral", Flavor::kNxdi, false), ElementsAre("rank_util.rank"));
  EXPECT_THAT(ranks("qwen3_moe", Flavor::kOptimum), ElementsAre("rank_util.rank"));
  EXPECT_THAT(ranks("qwen3_moe", Flavor::kNxdi),
              ElementsAre(kOfAttention, kOfExperts, "rank_util.rank"));
}

// I = 4, tp 2: rank 0 holds g0 g1 u0 u1, rank 1 g2 g3 u2 u3.
TEST(Experts, ColumnsOfGateAndUpAreInterleavedByRank) {
  const models::Model model = ModelOf(SmallMoeConfig("mixtral", {{"intermediate_size", 4}}));
  for (const int rank : {0, 1}) {
    for (const TensorLayout& tensor : Tensors(model, Of(2), rank)) {
      if (tensor.name != "layers.1.mlp.expert_mlps.mlp_op.gate_up_proj.weight") continue;
      EXPECT_EQ(ShapeText(tensor.shape), "[4, 16, 4]");
      for (const Piece& piece : tensor.pieces) {
        const bool up = model.params[piece.param].name.ends_with("w3.weight");
        EXPECT_EQ(BoxText(piece.logical), rank == 0 ? "[0:2, 0:16]" : "[2:4, 0:16]");
        EXPECT_EQ(piece.stored_lo, (Shape{model.params[piece.param].expert, 0, up ? 2 : 0}));
        EXPECT_THAT(piece.axes, ElementsAre(2, 1));
      }
    }
  }
}

struct ExpertRefusal {
  const char* name;
  const char* family;
  nlohmann::json changes;
  Flavor flavor;
  bool transposed;
  const char* message;
};

class RefusedExperts : public ::testing::TestWithParam<ExpertRefusal> {};
TEST_P(RefusedExperts, WithTheReason) {
  const ExpertRefusal& row = GetParam();
  Geometry geometry = OfFlavor(2, row.flavor);
  geometry.transposed_mlp = row.transposed;
  ExpectError(RankTensors(ModelOf(SmallMoeConfig(row.family, row.changes)), geometry, 0),
              Errc::kUnsupported, row.message);
}
INSTANTIATE_TEST_SUITE_P(
    Models, RefusedExperts,
    ::testing::Values(
        ExpertRefusal{"Hidden",
                      "mixtral",
                      {{"hidden_size", 17}},
                      Flavor::kOptimum,
                      false,
                      "hidden size 17 cannot be split evenly over tp 2; bundles of models with "
                      "experts are not padded"},
        ExpertRefusal{"Vocabulary",
                      "mixtral",
                      {{"vocab_size", 23}},
                      Flavor::kOptimum,
                      false,
                      "vocabulary of 23 cannot be split evenly over tp 2"},
        ExpertRefusal{"Intermediate",
                      "qwen3_moe",
                      {{"moe_intermediate_size", 7}},
                      Flavor::kNxdi,
                      false,
                      "the experts' intermediate size 7 cannot be split evenly over tp 2"},
        ExpertRefusal{"Kernel",
                      "mixtral",
                      {},
                      Flavor::kNxdi,
                      true,
                      "how mlp_kernel_enabled stores the experts of a model is not known"},
        ExpertRefusal{"TiedMixtral",
                      "mixtral",
                      {{"tie_word_embeddings", true}},
                      Flavor::kOptimum,
                      false,
                      "bundles of flavor optimum know no mixtral model with tied embeddings"},
        ExpertRefusal{"TiedNxdi",
                      "qwen3_moe",
                      {{"tie_word_embeddings", true}},
                      Flavor::kNxdi,
                      false,
                      "bundles of flavor nxdi know no qwen3_moe model with tied embeddings"},
        ExpertRefusal{"DenseLayersNxdi",
                      "qwen3_moe",
                      {{"mlp_only_layers", {1}}},
                      Flavor::kNxdi,
                      false,
                      "bundles of flavor nxdi know no qwen3_moe layers without experts"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Faults, AProgramThatHasNoSuchModelIsNamed) {
  const models::Model mistral =
      ModelOf(SmallConfig({{"model_type", "mistral"}, {"architectures", {"MistralForCausalLM"}}}));
  ExpectError(RankTensors(mistral, OfFlavor(2, Flavor::kOptimum), 0), Errc::kUnsupported,
              "no bundles of flavor optimum are known of mistral models");
  EXPECT_TRUE(RankTensors(mistral, OfFlavor(2, Flavor::kNxdi), 0).ok());
}

TEST(Faults, ARankThatIsNotThereIsOurOwnBug) {
  const models::Model model = ModelOf(SmallConfig());
  ExpectError(RankTensors(model, Of(4), 4), Errc::kInternal, "rank 4 of tp 4");
}

// --- contents: every element, worked out one by one ----------------------------------------------

// Elements of a stored tensor as bf16 bits.
class Matrix {
 public:
  Matrix(Shape shape, const std::vector<std::byte>& bytes) : shape_(std::move(shape)) {
    bits_.resize(bytes.size() / 2);
    std::memcpy(bits_.data(), bytes.data(), bytes.size());
  }
  const Shape& shape() const { return shape_; }
  int64_t rows() const { return shape_[0]; }
  int64_t columns() const { return shape_.size() > 1 ? shape_[1] : 1; }
  uint16_t at(int64_t row, int64_t column = 0) const { return bits_.at(row * columns() + column); }

 private:
  Shape shape_;
  std::vector<uint16_t> bits_;
};

class Shards {
 public:
  Shards(models::Model model, const Geometry& geometry)
      : model_(std::move(model)),
        layout_(testing_util::RolloutLayout(model_, geometry)),
        sink_(testing_util::RunPlan(model_.Logical(),
                                    models::SampleCheckpoint(model_, 7, Dtype::kBF16), layout_,
                                    Dtype::kBF16)) {}

  Matrix Stored(int rank, const std::string& name) const {
    for (size_t t = 0; t < layout_.tensors.size(); ++t)
      if (layout_.tensors[t].name == name && layout_.files[layout_.tensors[t].file].tp_rank == rank)
        return {layout_.tensors[t].shape, sink_.bytes(t)};
    ADD_FAILURE() << "no " << name << " on rank " << rank;
    return {{0, 0}, {}};
  }

  // An element of the model's parameter.
  uint16_t Source(const std::string& name, int64_t row, int64_t column = 0) const {
    const Shape& shape = model_.params[*model_.Find(name)].shape;
    const int64_t width = shape.size() > 1 ? shape[1] : 1;
    return models::SampleBf16(7, name, static_cast<uint64_t>(row * width + column));
  }

 private:
  models::Model model_;
  Layout layout_;
  testing_util::MemorySink sink_;
};

// Rank 3 of 14 query and 2 key heads at tp 8 has head 6 and a zero head; its k and v are those of
// head 0. Two rows per head.
TEST(Contents, PaddingHeadsAreZeroRowsAndColumns) {
  const Shards shards(
      ModelOf(SmallConfig(
          {{"num_attention_heads", 14}, {"num_key_value_heads", 2}, {"model_type", "qwen2"}})),
      Of(8));
  const std::string hf = "model.layers.0.self_attn.";
  const std::string own = "layers.0.self_attn.";
  const Matrix q = shards.Stored(3, own + "qkv_proj.q_proj.weight");
  const Matrix bias = shards.Stored(3, own + "qkv_proj.q_proj.bias");
  const Matrix o = shards.Stored(3, own + "o_proj.o_proj.weight");
  const Matrix k = shards.Stored(3, own + "qkv_proj.k_proj.weight");
  ASSERT_EQ(q.shape(), (Shape{4, 16}));
  ASSERT_EQ(o.shape(), (Shape{16, 4}));
  for (int64_t row = 0; row < 4; ++row) {
    const bool padding = row >= 2;  // the second slot
    EXPECT_EQ(bias.at(row), padding ? 0 : shards.Source(hf + "q_proj.bias", 12 + row)) << row;
    for (int64_t column = 0; column < 16; ++column) {
      EXPECT_EQ(q.at(row, column),
                padding ? 0 : shards.Source(hf + "q_proj.weight", 12 + row, column));
      EXPECT_EQ(o.at(column, row),
                padding ? 0 : shards.Source(hf + "o_proj.weight", column, 12 + row));
    }
  }
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t column = 0; column < 16; ++column)
      EXPECT_EQ(k.at(row, column), shards.Source(hf + "k_proj.weight", row, column));
}

// hidden 10 over 4 ranks is padded to 12, vocabulary 9 to 12, intermediate 7 to 8.
TEST(Contents, EmbeddingHeadAndMlpArePaddedAtTheEnd) {
  const Shards shards(ModelOf(SmallConfig({{"hidden_size", 10},
                                           {"vocab_size", 9},
                                           {"intermediate_size", 7},
                                           {"tie_word_embeddings", true}})),
                      Of(4));
  const std::string embedding = "model.embed_tokens.weight";
  for (int rank = 0; rank < 4; ++rank) {
    SCOPED_TRACE(rank);
    const Matrix embed = shards.Stored(rank, "embed_tokens.weight");
    ASSERT_EQ(embed.shape(), (Shape{9, 3}));
    for (int64_t row = 0; row < 9; ++row)
      for (int64_t i = 0; i < 3; ++i) {
        const int64_t column = 3 * rank + i;
        EXPECT_EQ(embed.at(row, i), column < 10 ? shards.Source(embedding, row, column) : 0);
      }
    const Matrix head = shards.Stored(rank, "lm_head.weight");
    ASSERT_EQ(head.shape(), (Shape{3, 10}));
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t column = 0; column < 10; ++column)
        EXPECT_EQ(head.at(i, column),
                  3 * rank + i < 9 ? shards.Source(embedding, 3 * rank + i, column) : 0);
    const Matrix gate = shards.Stored(rank, "layers.1.mlp.gate_proj.weight");
    const Matrix down = shards.Stored(rank, "layers.1.mlp.down_proj.weight");
    ASSERT_EQ(gate.shape(), (Shape{2, 10}));
    ASSERT_EQ(down.shape(), (Shape{10, 2}));
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t column = 0; column < 10; ++column) {
        const int64_t row = 2 * rank + i;
        const std::string mlp = "model.layers.1.mlp.";
        EXPECT_EQ(gate.at(i, column),
                  row < 7 ? shards.Source(mlp + "gate_proj.weight", row, column) : 0);
        EXPECT_EQ(down.at(column, i),
                  row < 7 ? shards.Source(mlp + "down_proj.weight", column, row) : 0);
      }
  }
}

TEST(Contents, FusedRowsAreTheRanksQueriesKeysAndValues) {
  const models::Model model = ModelOf(SmallConfig());
  const Shards fused(model, Of(4, true));
  Geometry flags = Of(4, true);
  flags.transposed_qkv = true;
  const Shards transposed(model, flags);
  const std::string name = "layers.1.self_attn.qkv_proj.Wqkv.weight";
  const Matrix plain = fused.Stored(2, name);
  const Matrix turned = transposed.Stored(2, name);
  ASSERT_EQ(plain.shape(), (Shape{8, 16}));
  ASSERT_EQ(turned.shape(), (Shape{16, 8}));
  for (int64_t row = 0; row < 8; ++row)
    for (int64_t column = 0; column < 16; ++column) {
      const std::string self = "model.layers.1.self_attn.";
      const uint16_t expected = row < 4   ? fused.Source(self + "q_proj.weight", 8 + row, column)
                                : row < 6 ? fused.Source(self + "k_proj.weight", row, column)
                                          : fused.Source(self + "v_proj.weight", row - 2, column);
      EXPECT_EQ(plain.at(row, column), expected) << row;
      EXPECT_EQ(turned.at(column, row), expected) << row;
    }
}

}  // namespace
}  // namespace nxdkit::rollout
