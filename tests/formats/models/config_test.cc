// config.json: the values that each family reads from it, and the errors of a wrong one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/models/model.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::models {
namespace {

using nlohmann::json;
using testing_util::ExpectError;

json Config(const std::string& model_type) {
  return {{"model_type", model_type}, {"hidden_size", 32},        {"intermediate_size", 48},
          {"num_hidden_layers", 2},   {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"vocab_size", 64},         {"torch_dtype", "bfloat16"}};
}

ModelConfig Parsed(const json& config) {
  Result<ModelConfig> parsed = ParseConfig(config.dump(), "config.json");
  EXPECT_TRUE(parsed.ok()) << parsed.error().ToString();
  return parsed.ok() ? *std::move(parsed) : ModelConfig();
}

std::vector<std::string> Names(const json& config) {
  const Result<Model> model = MakeModel(Parsed(config));
  EXPECT_TRUE(model.ok()) << model.error().ToString();
  std::vector<std::string> names;
  if (model.ok())
    for (const Param& param : model->params)
      names.push_back(param.name + " " + ShapeText(param.shape));
  return names;
}

TEST(Config, ReadsTheKeys) {
  json config = Config("llama");
  config["tie_word_embeddings"] = true;
  config["head_dim"] = 16;
  const ModelConfig parsed = Parsed(config);
  ASSERT_NE(parsed.family, nullptr);
  EXPECT_EQ(parsed.family->model_type, "llama");
  EXPECT_EQ(parsed.hidden, 32);
  EXPECT_EQ(parsed.intermediate, 48);
  EXPECT_EQ(parsed.layers, 2);
  EXPECT_EQ(parsed.heads, 4);
  EXPECT_EQ(parsed.kv_heads, 2);
  EXPECT_EQ(parsed.head_dim, 16);
  EXPECT_EQ(parsed.vocab, 64);
  EXPECT_TRUE(parsed.tied);
  EXPECT_EQ(parsed.dtype, Dtype::kBF16);
}

TEST(Config, WithDtypeChangesTheDtypeAlone) {
  // As transformers 5 and 4 write: keys in their order, floats and escapes as in Python's json.
  for (const std::string key : {"dtype", "torch_dtype"}) {
    const auto text = [&](const std::string& dtype) {
      return "{\n  \"model_type\": \"llama\",\n  \"" + key + "\": \"" + dtype +
             "\",\n  \"a\": {\n    \"eps\": 1e-06,\n    \"name\": \"\\u00e9\"\n  },\n"
             "  \"rope_theta\": 1000000.0\n}\n";
    };
    const Result<std::string> changed = WithDtype(text("float32"), Dtype::kBF16);
    ASSERT_TRUE(changed.ok()) << changed.error().ToString();
    EXPECT_EQ(*changed, text("bfloat16"));
  }
}

TEST(Config, DefaultsOfAbsentAndNullKeys) {
  json config = Config("llama");
  config["head_dim"] = nullptr;
  config["num_key_value_heads"] = nullptr;
  config.erase("torch_dtype");
  const ModelConfig parsed = Parsed(config);
  EXPECT_EQ(parsed.head_dim, 8) << "hidden_size over num_attention_heads";
  EXPECT_EQ(parsed.kv_heads, 4) << "one key head per query head";
  config["model_type"] = "qwen3";
  EXPECT_EQ(Parsed(config).head_dim, 128) << "the default of transformers' Qwen3Config";
  EXPECT_FALSE(parsed.tied);
  EXPECT_FALSE(parsed.qkv_bias);
  EXPECT_EQ(parsed.dtype, std::nullopt);
}

TEST(Config, TheDtypeMayBeUnderDtypeOrInNxdisNestedObject) {
  json config = Config("llama");
  config["dtype"] = "float16";
  EXPECT_EQ(Parsed(config).dtype, Dtype::kF16) << "\"dtype\" comes before \"torch_dtype\"";
  config.erase("dtype");
  config.erase("torch_dtype");
  config["neuron_config"] = {{"torch_dtype", "float32"}};
  EXPECT_EQ(Parsed(config).dtype, Dtype::kF32);
}

TEST(Config, TheArchitectureStandsInForAMissingModelType) {
  json config = Config("");
  config["architectures"] = {"Qwen3ForCausalLM"};
  ASSERT_NE(Parsed(config).family, nullptr);
  EXPECT_EQ(Parsed(config).family->model_type, "qwen3");
  config["model_type"] = "mistral";  // never against its own value
  EXPECT_EQ(Parsed(config).family, nullptr);
}

TEST(Config, BareInfinityAndDoubledKeysAreTakenAsPythonTakesThem) {
  const auto parsed = ParseConfig(
      R"({"model_type": "llama", "hidden_size": 8, "hidden_size": 16, "intermediate_size": 4,
          "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 8,
          "neuron_config": {"quantize_clamp_bound": Infinity}})",
      "neuron_config.json");
  ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
  EXPECT_EQ(parsed->hidden, 16);
}

struct Fault {
  const char* key;
  json value;  // null: the key is missing
  const char* message;
};

class FaultyConfig : public ::testing::TestWithParam<Fault> {};
TEST_P(FaultyConfig, NamesTheKeyWithFoundAndExpected) {
  const Fault& fault = GetParam();
  json config = Config("llama");
  if (fault.value.is_null())
    config.erase(fault.key);
  else
    config[fault.key] = fault.value;
  const auto error =
      ExpectError(ParseConfig(config.dump(), "some/config.json"), Errc::kCorrupt, fault.message);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), fault.key);
  EXPECT_EQ(error->file(), "some/config.json");
}
INSTANTIATE_TEST_SUITE_P(
    Keys, FaultyConfig,
    ::testing::Values(
        Fault{"hidden_size", nullptr, "missing; expected an integer from 1 to 1073741824"},
        Fault{"intermediate_size", nullptr, "missing"}, Fault{"vocab_size", nullptr, "missing"},
        Fault{"num_hidden_layers", nullptr, "missing; expected an integer from 1 to 10000"},
        Fault{"num_attention_heads", nullptr, "missing; expected an integer from 1 to 65536"},
        Fault{"hidden_size", "32", "found \"32\", expected an integer"},
        Fault{"hidden_size", 32.0, "found 32.0, expected an integer"},
        Fault{"hidden_size", 0, "found 0, expected an integer from 1"},
        Fault{"hidden_size", -32, "found -32, expected an integer from 1"},
        Fault{"hidden_size", uint64_t{1} << 63, "found 9223372036854775808, expected"},
        Fault{"num_hidden_layers", 10001, "found 10001, expected an integer from 1 to 10000"},
        Fault{"num_attention_heads", 65537, "found 65537, expected an integer from 1 to 65536"},
        Fault{"num_key_value_heads", 3, "3 is not a divisor of num_attention_heads 4"},
        Fault{"num_key_value_heads", 8, "8 is not a divisor of num_attention_heads 4"},
        Fault{"head_dim", 1 << 29, "4 heads of 536870912 rows are over the limit"},
        Fault{"tie_word_embeddings", "yes", "found \"yes\", expected true or false"},
        Fault{"attention_bias", 1, "found 1, expected true or false"},
        Fault{"mlp_bias", 0.5, "found 0.5, expected true or false"},
        Fault{"model_type", 7, "found 7, expected a string"},
        Fault{"torch_dtype", json::array({1, 2}), "found [1,2], expected a string"}));

TEST(Config, AHeadDimThatCannotBeDerivedIsAskedFor) {
  json config = Config("llama");
  config["hidden_size"] = 30;
  const auto error = ExpectError(ParseConfig(config.dump(), "config.json"), Errc::kCorrupt,
                                 "hidden_size 30 is not a multiple of num_attention_heads 4");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), "head_dim");
  config["head_dim"] = 8;
  EXPECT_EQ(Parsed(config).head_dim, 8);
}

TEST(Config, ALongValueIsCutInTheMessage) {
  json config = Config("llama");
  config["hidden_size"] = std::string(5000, 'x');
  const auto error =
      ExpectError(ParseConfig(config.dump(), "config.json"), Errc::kCorrupt, "..., expected");
  ASSERT_TRUE(error);
  EXPECT_LT(error->message().size(), 200u);
}

TEST(Config, WhatIsNoObjectIsRefused) {
  ExpectError(ParseConfig("[1, 2]", "config.json"), Errc::kCorrupt,
              "found an array, expected an object");
  const auto error =
      ExpectError(ParseConfig("{\"a\": 1,}", "config.json"), Errc::kCorrupt, "JSON line 1");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->offset(), 8u);
  EXPECT_EQ(error->file(), "config.json");
}

TEST(Config, AnUnknownFamilyIsNoErrorUntilATableIsNeeded) {
  const ModelConfig config = Parsed({{"model_type", "foo"}});
  EXPECT_EQ(config.family, nullptr);
  EXPECT_EQ(config.model_type, "foo");
  const auto error = ExpectError(MakeModel(config), Errc::kUnsupported,
                                 "no parameter table for model_type \"foo\"; 51 families have one");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), ::testing::HasSubstr("as hf or torch it can still be inspected"));
}

const char* const kLlamaNames[] = {
    "model.embed_tokens.weight [64, 32]",
    "model.layers.0.self_attn.q_proj.weight [32, 32]",
    "model.layers.0.self_attn.k_proj.weight [16, 32]",
    "model.layers.0.self_attn.v_proj.weight [16, 32]",
    "model.layers.0.self_attn.o_proj.weight [32, 32]",
    "model.layers.0.mlp.gate_proj.weight [48, 32]",
    "model.layers.0.mlp.up_proj.weight [48, 32]",
    "model.layers.0.mlp.down_proj.weight [32, 48]",
    "model.layers.0.input_layernorm.weight [32]",
    "model.layers.0.post_attention_layernorm.weight [32]",
    "model.norm.weight [32]",
    "lm_head.weight [64, 32]",
};

TEST(Families, LlamaHasTheseTensors) {
  json config = Config("llama");
  config["num_hidden_layers"] = 1;
  EXPECT_THAT(Names(config), ::testing::ElementsAreArray(kLlamaNames));
}

TEST(Families, ATiedModelHasNoHead) {
  json config = Config("llama");
  config["tie_word_embeddings"] = true;
  EXPECT_THAT(Names(config), ::testing::Not(::testing::Contains("lm_head.weight [64, 32]")));
}

TEST(Families, LlamaBiasesFollowTheConfig) {
  json config = Config("llama");
  config["attention_bias"] = true;
  config["mlp_bias"] = true;
  const std::vector<std::string> names = Names(config);
  for (const char* name :
       {"self_attn.q_proj.bias [32]", "self_attn.k_proj.bias [16]", "self_attn.v_proj.bias [16]",
        "self_attn.o_proj.bias [32]", "mlp.gate_proj.bias [48]", "mlp.up_proj.bias [48]",
        "mlp.down_proj.bias [32]"})
    EXPECT_THAT(names, ::testing::Contains(fmt::format("model.layers.1.{}", name)));
  EXPECT_EQ(names.size(), 3u + 2u * 16u);
}

TEST(Families, Qwen2AlwaysHasBiasesOnQkvAndNeverOnO) {
  json config = Config("qwen2");
  config["attention_bias"] = true;  // not a key of this family
  const std::vector<std::string> names = Names(config);
  EXPECT_THAT(names, ::testing::Contains("model.layers.0.self_attn.q_proj.bias [32]"));
  EXPECT_THAT(names, ::testing::Contains("model.layers.0.self_attn.v_proj.bias [16]"));
  EXPECT_THAT(names, ::testing::Not(::testing::Contains(::testing::HasSubstr("o_proj.bias"))));
  EXPECT_EQ(names.size(), 3u + 2u * 12u);
}

TEST(Families, Qwen3HasHeadNormsAndItsOwnHeadDim) {
  json config = Config("qwen3");
  config["head_dim"] = 16;
  const std::vector<std::string> names = Names(config);
  EXPECT_THAT(names, ::testing::Contains("model.layers.0.self_attn.q_norm.weight [16]"));
  EXPECT_THAT(names, ::testing::Contains("model.layers.0.self_attn.k_norm.weight [16]"));
  EXPECT_THAT(names, ::testing::Contains("model.layers.0.self_attn.q_proj.weight [64, 32]"));
  EXPECT_THAT(names, ::testing::Contains("model.layers.0.self_attn.o_proj.weight [32, 64]"));
}

TEST(Families, AClassifierHasAScoreInThePlaceOfTheLmHead) {
  for (const char* family : {"llama", "qwen2", "qwen3"}) {
    json config = Config(family);
    config["tie_word_embeddings"] = true;  // to nothing
    config["architectures"] = {"XForTokenClassification"};
    config["id2label"] = {{"0", "LABEL_0"}};
    config["num_labels"] = 3;  // the names count
    EXPECT_EQ(Parsed(config).labels, 1) << family;
    EXPECT_FALSE(Parsed(config).tied) << family;
    std::vector<std::string> names = Names(config);
    EXPECT_EQ(names.back(), "score.bias [1]") << family;
    EXPECT_EQ(names[names.size() - 2], "score.weight [1, 32]") << family;
    EXPECT_THAT(names, ::testing::Not(::testing::Contains(::testing::HasSubstr("lm_head"))));
    config["architectures"] = {"XForSequenceClassification"};
    config.erase("id2label");
    EXPECT_EQ(Names(config).back(), "score.weight [3, 32]") << family;
    config.erase("num_labels");
    EXPECT_EQ(Names(config).back(), "score.weight [2, 32]") << family;
    config["num_labels"] = 0;
    const auto error = ExpectError(ParseConfig(config.dump(), "config.json"), Errc::kCorrupt,
                                   "found 0, expected an integer from 1 to");
    ASSERT_TRUE(error);
    EXPECT_EQ(error->member(), "num_labels");
  }
}

// The tensors of a BERT or GPT-NeoX model depend on its head.
TEST(Config, SomeFamiliesAreToldByTheirArchitecture) {
  json config = Config("gpt_neox");
  config["architectures"] = {"GPTNeoXForCausalLM"};
  ASSERT_NE(Parsed(config).family, nullptr);
  config["architectures"] = {"GPTNeoXForSequenceClassification"};
  EXPECT_EQ(Parsed(config).family, nullptr);
  ExpectError(MakeModel(Parsed(config)), Errc::kUnsupported,
              "no parameter table for model_type \"gpt_neox\", architecture "
              "\"GPTNeoXForSequenceClassification\"; 51 families have one");
}

TEST(Families, GptNeoxHasOneMatrixForQueriesKeysAndValues) {
  json config = Config("gpt_neox");
  config["architectures"] = {"GPTNeoXForCausalLM"};
  config["num_key_value_heads"] = 1;  // not a key of this family
  EXPECT_EQ(Parsed(config).kv_heads, 4);
  const std::vector<std::string> names = Names(config);
  const std::string layer = "gpt_neox.layers.1.";
  EXPECT_THAT(names, ::testing::IsSupersetOf({layer + "attention.query_key_value.weight [96, 32]",
                                              layer + "attention.query_key_value.bias [96]",
                                              layer + "attention.dense.bias [32]",
                                              layer + "mlp.dense_h_to_4h.bias [48]",
                                              std::string("gpt_neox.final_layer_norm.bias [32]"),
                                              std::string("embed_out.weight [64, 32]")}));
  EXPECT_EQ(names.size(), 4u + 2u * 12u);
  config["attention_bias"] = false;
  EXPECT_EQ(Names(config).size(), 4u + 2u * 10u) << "they are there unless it says no";
  const Result<Model> model = MakeModel(Parsed(config));
  EXPECT_EQ(model->Logical()[5].head_rows, 24) << "q, k and v of a head";
  EXPECT_TRUE(IsIgnorable(*Parsed(config).family, "gpt_neox.layers.0.attention.masked_bias"));
}

json BertConfig() {
  json config = Config("bert");
  config["architectures"] = {"BertForPreTraining"};
  config["max_position_embeddings"] = 40;
  config["type_vocab_size"] = 2;
  return config;
}

TEST(Families, BertIsTiedUnlessItSaysOtherwise) {
  json config = BertConfig();
  const std::vector<std::string> names = Names(config);
  EXPECT_THAT(names, ::testing::IsSupersetOf(
                         {"bert.embeddings.position_embeddings.weight [40, 32]",
                          "bert.embeddings.token_type_embeddings.weight [2, 32]",
                          "bert.encoder.layer.1.attention.self.query.bias [32]",
                          "bert.encoder.layer.1.intermediate.dense.weight [48, 32]",
                          "cls.predictions.bias [64]", "cls.seq_relationship.weight [2, 32]"}));
  EXPECT_EQ(names.size(), 5u + 2u * 16u + 2u + 5u + 2u);
  config["tie_word_embeddings"] = false;
  EXPECT_THAT(Names(config), ::testing::Contains("cls.predictions.decoder.weight [64, 32]"));
  config.erase("type_vocab_size");
  const auto error = ExpectError(ParseConfig(config.dump(), "config.json"), Errc::kCorrupt,
                                 "missing; expected an integer");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), "type_vocab_size");
  config["type_vocab_size"] = true;
  const auto flag = ExpectError(ParseConfig(config.dump(), "config.json"), Errc::kCorrupt,
                                "found true, expected an integer");
  ASSERT_TRUE(flag);
  EXPECT_EQ(flag->member(), "type_vocab_size");
}

json ExpertConfig(const std::string& model_type) {
  json config = Config(model_type);
  config["num_hidden_layers"] = 1;
  config["num_local_experts"] = config["num_experts"] = 2;
  config["moe_intermediate_size"] = 12;
  return config;
}

std::vector<std::string> WithoutAttention(std::vector<std::string> names) {
  std::erase_if(
      names, [](const std::string& name) { return name.find("self_attn") != std::string::npos; });
  return names;
}

TEST(Families, MixtralHasTheseExperts) {
  const std::string moe = "model.layers.0.block_sparse_moe.";
  EXPECT_THAT(WithoutAttention(Names(ExpertConfig("mixtral"))),
              ::testing::ElementsAre(
                  "model.embed_tokens.weight [64, 32]", moe + "gate.weight [2, 32]",
                  moe + "experts.0.w1.weight [48, 32]", moe + "experts.0.w2.weight [32, 48]",
                  moe + "experts.0.w3.weight [48, 32]", moe + "experts.1.w1.weight [48, 32]",
                  moe + "experts.1.w2.weight [32, 48]", moe + "experts.1.w3.weight [48, 32]",
                  "model.layers.0.input_layernorm.weight [32]",
                  "model.layers.0.post_attention_layernorm.weight [32]", "model.norm.weight [32]",
                  "lm_head.weight [64, 32]"));
}

TEST(Families, Qwen3MoeHasExpertsOrAnMlpPerLayer) {
  json config = ExpertConfig("qwen3_moe");
  config["num_hidden_layers"] = 4;
  config["decoder_sparse_step"] = 2;  // layers 1 and 3
  config["mlp_only_layers"] = {3};
  const ModelConfig parsed = Parsed(config);
  EXPECT_EQ(parsed.experts, 2);
  EXPECT_EQ(parsed.expert_intermediate, 12);
  const std::vector<std::string> names = Names(config);
  for (const int layer : {0, 2, 3}) {
    EXPECT_FALSE(parsed.IsSparse(layer));
    EXPECT_THAT(names, ::testing::Contains(
                           fmt::format("model.layers.{}.mlp.gate_proj.weight [48, 32]", layer)));
  }
  EXPECT_TRUE(parsed.IsSparse(1));
  EXPECT_THAT(names, ::testing::IsSupersetOf({"model.layers.1.mlp.gate.weight [2, 32]",
                                              "model.layers.1.mlp.experts.1.gate_proj.weight "
                                              "[12, 32]",
                                              "model.layers.1.mlp.experts.1.down_proj.weight "
                                              "[32, 12]",
                                              "model.layers.1.self_attn.q_norm.weight [8]"}));
  EXPECT_EQ(names.size(), 3u + 4u * 8u + 3u * 3u + 1u + 2u * 3u);
}

// transformers 5 writes num_local_experts for every family, transformers 4 the family's own key.
TEST(Families, TheNumberOfExpertsHasTwoSpellings) {
  for (const char* family : {"mixtral", "qwen3_moe"})
    for (const char* other : {"num_experts", "num_local_experts"}) {
      json config = ExpertConfig(family);
      config.erase(other);
      EXPECT_EQ(Parsed(config).experts, 2) << family << " without " << other;
      config[other] = 3;
      const auto differs = ExpectError(ParseConfig(config.dump(), "config.json"), Errc::kCorrupt,
                                       "and num_experts is");
      ASSERT_TRUE(differs);
      EXPECT_EQ(differs->member(), "num_local_experts");
    }
}

TEST(Families, FaultsOfExpertsAreNamed) {
  json config = ExpertConfig("mixtral");
  config.erase("num_local_experts");
  config.erase("num_experts");
  const auto missing = ExpectError(ParseConfig(config.dump(), "config.json"), Errc::kCorrupt,
                                   "missing; expected an integer from 0 to 4096");
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->member(), "num_local_experts");
  config = ExpertConfig("qwen3_moe");
  config["num_hidden_layers"] = 10'000;
  config["num_experts"] = config["num_local_experts"] = 27;
  ExpectError(ParseConfig(config.dump(), "config.json"), Errc::kCorrupt,
              "27 experts in each of 10000 layers are over the limit of 262144 in all");
  config = ExpertConfig("qwen3_moe");
  config["mlp_only_layers"] = {0, "x"};
  const auto layers = ExpectError(ParseConfig(config.dump(), "config.json"), Errc::kCorrupt,
                                  "found \"x\", expected an integer");
  ASSERT_TRUE(layers);
  EXPECT_EQ(layers->member(), "mlp_only_layers");
}

TEST(Families, OnlyNamedBuffersMayBeLeftOut) {
  const ModelConfig config = Parsed(Config("llama"));
  const Family& llama = *config.family;
  EXPECT_TRUE(IsIgnorable(llama, "model.layers.11.self_attn.rotary_emb.inv_freq"));
  EXPECT_TRUE(IsIgnorable(llama, "model.rotary_emb.inv_freq"));
  EXPECT_TRUE(IsIgnorable(llama,
                          "language_model.encoder.layers.3.self_attention.core_attention."
                          "rotary_emb.inv_freq"));
  EXPECT_FALSE(IsIgnorable(llama, "model.layers.x.self_attn.rotary_emb.inv_freq"));
  EXPECT_FALSE(IsIgnorable(llama, "model.layers..self_attn.rotary_emb.inv_freq"));
  EXPECT_FALSE(IsIgnorable(llama, "model.layers.0.self_attn.q_proj.weight"));
}

TEST(Model, FindsParametersAndTellsHeads) {
  const Result<Model> model = MakeModel(Parsed(Config("llama")));
  ASSERT_TRUE(model.ok());
  const auto index = model->Find("model.layers.1.self_attn.o_proj.weight");
  ASSERT_TRUE(index);
  const LogicalTensor logical = model->Logical()[*index];
  EXPECT_EQ(logical.head_rows, 8);
  EXPECT_EQ(logical.head_dim, 1) << "o_proj's heads run along its columns";
  EXPECT_EQ(model->params[*index].layer, 1);
  EXPECT_EQ(model->Find("model.layers.2.self_attn.o_proj.weight"), std::nullopt);
}

}  // namespace
}  // namespace nxdkit::models
