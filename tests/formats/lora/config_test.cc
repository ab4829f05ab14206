#include "formats/lora/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "formats/lora/read_config.h"
#include "formats/models/model.h"
#include "lib/json/json.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::lora {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::ExpectError;

constexpr char kPath[] = "adapter/adapter_config.json";

// A plain configuration with `more` merged into it.
Result<Config> Parse(const std::string& more = "{}") {
  Json json = {{"peft_type", "LORA"},
               {"r", 8},
               {"lora_alpha", 16},
               {"target_modules", {"q_proj", "v_proj"}}};
  const Result<Json> changes = ParseJson(more);
  if (!changes.ok()) return changes.error();
  for (const auto& [key, value] : changes->items()) json[key] = value;
  return ParseConfig(json.dump(), kPath);
}

Config ParseOk(const std::string& more = "{}") {
  Result<Config> config = Parse(more);
  EXPECT_TRUE(config.ok()) << config.error().ToString();
  return config.ok() ? *std::move(config) : Config();
}

TEST(LoraConfig, SaysRankAndScale) {
  const Config config = ParseOk(R"({"bias": "all", "lora_dropout": 0.1, "task_type": "CAUSAL_LM",
                                    "base_model_name_or_path": "a/b",
                                    "modules_to_save": ["lm_head"]})");
  EXPECT_EQ(config.rank, 8);
  EXPECT_EQ(config.ScaleOf("model.layers.0.self_attn.q_proj"), 2.0);
  EXPECT_EQ(config.bias, Bias::kAll);
  EXPECT_EQ(config.base_model, "a/b");
  EXPECT_TRUE(config.Saves("lm_head"));
  EXPECT_FALSE(config.Saves("model.lm_headless"));
  EXPECT_EQ(ParseOk(R"({"use_rslora": true})").ScaleOf("x"), 16 / std::sqrt(8.0));
}

TEST(LoraConfig, TheFirstPatternThatFitsCounts) {
  const Config config =
      ParseOk(R"({"rank_pattern": {"layers.1.q_proj": 3, "q_proj": 4, "^v_proj": 5},
                  "alpha_pattern": {"layers.1.q_proj": 7.5}})");
  EXPECT_EQ(config.RankOf("model.layers.1.q_proj"), 3);
  EXPECT_EQ(config.RankOf("model.layers.11.q_proj"), 4);
  EXPECT_EQ(config.RankOf("model.layers.1.v_proj"), 8) << "^ is the beginning of the whole name";
  EXPECT_EQ(config.RankOf("v_proj"), 5);
  EXPECT_EQ(config.ScaleOf("model.layers.1.q_proj"), 2.5);
  EXPECT_EQ(config.ScaleOf("model.layers.0.q_proj"), 4.0);
}

// Each row was tried with PEFT 0.21's get_pattern_key.
TEST(LoraConfig, KeysOfPatternsAreRegularExpressions) {
  const auto fits = [](const char* key, const char* module) {
    const Result<ModulePattern> pattern = ModulePattern::Compile(key);
    EXPECT_TRUE(pattern.ok()) << pattern.error().ToString();
    return pattern.ok() && pattern->Fits(module);
  };
  constexpr char kModule[] = "model.layers.12.self_attn.q_proj";
  EXPECT_TRUE(fits(R"(.*\.q_proj)", kModule));
  EXPECT_TRUE(fits(R"(layers\.\d+\.self_attn\.q_proj)", kModule));
  EXPECT_TRUE(fits("(q|k)_proj", kModule));
  EXPECT_TRUE(fits("q_proj|k_proj", kModule));
  EXPECT_TRUE(fits(R"(^model\.layers\.1[0-5]\..*)", kModule));
  EXPECT_TRUE(fits("^model.layers.12.self_attn.q_proj", kModule));
  EXPECT_TRUE(fits("q_proj$", kModule));
  EXPECT_FALSE(fits(R"(layers\.1\..*)", kModule));
  EXPECT_FALSE(fits("_proj", kModule)) << "a key begins after a dot";
  EXPECT_FALSE(fits("^q_proj", kModule));
  EXPECT_FALSE(fits("(v|k)_proj", kModule));
  // A pattern that would keep a backtracking matcher busy for years.
  EXPECT_FALSE(fits("(a|a|aa)*x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

TEST(LoraConfig, AModuleSavedWholeHasItsParts) {
  const Config config = ParseOk(R"({"modules_to_save": ["mlp", "lm_head"]})");
  EXPECT_TRUE(config.Saves("model.layers.0.mlp.up_proj"));
  EXPECT_TRUE(config.Saves("lm_head"));
  EXPECT_FALSE(config.Saves("model.layers.0.mlp2.up_proj"));
  EXPECT_FALSE(config.Saves(""));
  const Config norm = ParseOk(R"({"modules_to_save": ["norm"]})");
  EXPECT_TRUE(norm.Saves("model.layers.0.input_layernorm")) << "as PEFT does, without a dot";
}

TEST(LoraConfig, TokensAreOfTheEmbeddingUnlessSaid) {
  const Config list = ParseOk(R"({"trainable_token_indices": [3, 1]})");
  ASSERT_TRUE(list.TokensOf("model.embed_tokens"));
  EXPECT_THAT(*list.TokensOf("model.embed_tokens"), ElementsAre(3, 1));
  EXPECT_FALSE(list.TokensOf("lm_head"));
  const Config said = ParseOk(R"({"trainable_token_indices": {"lm_head": [7]}})");
  ASSERT_TRUE(said.TokensOf("lm_head"));
  EXPECT_FALSE(said.TokensOf("model.embed_tokens"));
}

TEST(LoraConfig, NamesWhatIsAdapted) {
  const Config config =
      ParseOk(R"({"layers_to_transform": [0, 12], "exclude_modules": ["k.v_proj"]})");
  EXPECT_TRUE(config.Names("model.layers.12.self_attn.q_proj"));
  EXPECT_FALSE(config.Names("model.layers.1.self_attn.q_proj"));
  EXPECT_FALSE(config.Names("model.layers.0.self_attn.xq_proj")) << "names end at a dot";
  EXPECT_FALSE(config.Names("model.layers.0.k.v_proj"));
  EXPECT_FALSE(config.Names("q_proj")) << "of no layer";
  EXPECT_TRUE(ParseOk(R"({"layers_to_transform": 3})").Names("x.layers.3.q_proj"));
  EXPECT_TRUE(ParseOk(R"({"target_modules": "all-linear"})").targets_are_a_pattern);
}

TEST(LoraConfig, OptionsThatAreOffSayNothing) {
  ParseOk(
      R"({"use_dora": false, "layer_replication": null, "megatron_config": {}, "lora_bias": false,
              "some_new_option": null, "another": [], "fan_in_fan_out": false,
              "init_lora_weights": "gaussian", "peft_version": "0.18", "loftq_config": {"a": 1}})");
  EXPECT_FALSE(HasFailure());
}

struct BadRow {
  const char* name;
  const char* more;
  Errc code;
  const char* member;
  const char* part;
};

class BadLoraConfig : public ::testing::TestWithParam<BadRow> {};

TEST_P(BadLoraConfig, IsNamed) {
  const auto error = ExpectError(Parse(GetParam().more), GetParam().code, GetParam().part);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), GetParam().member);
  EXPECT_EQ(error->file(), kPath);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadLoraConfig,
    ::testing::Values(
        BadRow{"FanIn", R"({"fan_in_fan_out": true})", Errc::kUnsupported, "fan_in_fan_out",
               "[in, out]"},
        BadRow{"Bias", R"({"lora_bias": true})", Errc::kUnsupported, "lora_bias",
               "bias of its own"},
        BadRow{"Unknown", R"({"use_magic": 3})", Errc::kUnsupported, "use_magic",
               "the option is 3"},
        BadRow{"Parameters", R"({"target_parameters": ["x"]})", Errc::kUnsupported,
               "target_parameters", "other than the weights of modules"},
        BadRow{"Tokens", R"({"trainable_token_indices": [-1]})", Errc::kCorrupt,
               "trainable_token_indices", "found -1, expected the number of a token"},
        BadRow{"Invocation", R"({"alora_invocation_tokens": [1]})", Errc::kUnsupported,
               "alora_invocation_tokens", "some tokens only"},
        BadRow{"Replication", R"({"layer_replication": [[0, 2]]})", Errc::kUnsupported,
               "layer_replication", "repeated"},
        BadRow{"Pissa", R"({"init_lora_weights": "pissa_niter_4"})", Errc::kUnsupported,
               "init_lora_weights", "initialised as \"pissa_niter_4\""},
        BadRow{"Type", R"({"peft_type": "LOHA", "alpha": 3})", Errc::kUnsupported, "peft_type",
               "of the kind LoHa, which changes weights in a way of its own"},
        BadRow{"Prompt", R"({"peft_type": "P_TUNING"})", Errc::kUnsupported, "peft_type",
               "of the kind p-tuning adds to the model's inputs"},
        BadRow{"NoType", R"({"peft_type": "LORAX"})", Errc::kUnsupported, "peft_type",
               "not a kind of PEFT adapter"},
        BadRow{"NoScale", R"({"lora_alpha": 0})", Errc::kCorrupt, "lora_alpha", "adds nothing"},
        BadRow{"Layers", R"({"layers_pattern": "blocks"})", Errc::kUnsupported, "layers_pattern",
               "blocks"},
        BadRow{"Pattern", R"({"rank_pattern": {"q_proj(": 3}})", Errc::kUnsupported, "rank_pattern",
               "cannot be read"},
        BadRow{"PatternOfPython", R"({"alpha_pattern": {"(?i)q_proj": 3}})", Errc::kUnsupported,
               "alpha_pattern", "has \"(?i\", which this program does not read"},
        BadRow{"Rank", R"({"r": 0})", Errc::kCorrupt, "r", "found 0, expected a rank from 1"},
        BadRow{"NoRank", R"({"r": null})", Errc::kCorrupt, "r", "missing"},
        BadRow{"TwoRanks", R"({"lora_rank": 9})", Errc::kCorrupt, "lora_rank",
               "found 9, but r is 8"},
        BadRow{"NoAlpha", R"({"lora_alpha": null})", Errc::kCorrupt, "lora_alpha", "missing"},
        BadRow{"Alpha", R"({"lora_alpha": "16"})", Errc::kCorrupt, "lora_alpha", "found \"16\""},
        BadRow{"Biases", R"({"bias": "some"})", Errc::kCorrupt, "bias", "found \"some\""},
        BadRow{"Targets", R"({"target_modules": [1]})", Errc::kCorrupt, "target_modules",
               "found 1"},
        BadRow{"Layer", R"({"layers_to_transform": [-1]})", Errc::kCorrupt, "layers_to_transform",
               "found -1"},
        BadRow{"Rslora", R"({"use_rslora": "yes"})", Errc::kCorrupt, "use_rslora",
               "found \"yes\""}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(LoraConfig, TextThatIsNoObjectIsNamed) {
  ExpectError(ParseConfig("[]", kPath), Errc::kCorrupt, "found an array");
  ExpectError(ParseConfig("{", kPath), Errc::kCorrupt, "");
}

TEST(LoraConfig, WhatIsWrittenReadsBack) {
  const std::string more =
      R"({"use_dora": true, "ensure_weight_tying": true, "trainable_token_indices": {"wte": [5]},
          "rank_pattern": {"q_proj": 3}, "alpha_pattern": {"v_proj": 1.5}, "use_rslora": true,
          "layers_to_transform": [1], "exclude_modules": ["x"], "bias": "lora_only",
          "modules_to_save": ["lm_head"], "base_model_name_or_path": "a/b", "lora_dropout": 0.25})";
  const std::string text = WriteConfig(ParseOk(more));
  const Result<Config> again = ParseConfig(text, kPath);
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(WriteConfig(*again), text);
  EXPECT_THAT(text, HasSubstr("\"lora_alpha\": 16,")) << "whole numbers stay whole";
  EXPECT_EQ(again->RankOf("a.q_proj"), 3);
  EXPECT_THAT(again->targets, ElementsAre("q_proj", "v_proj"));
}

TEST(LoraConfig, NxdHasNoPatterns) {
  const Result<std::string> text = WriteNxdConfig(ParseOk(), {"qkv_proj"});
  ASSERT_TRUE(text.ok());
  const Result<Config> again = ParseConfig(*text, kPath);
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(again->rank, 8);
  EXPECT_THAT(again->targets, ElementsAre("qkv_proj"));
  const auto error = ExpectError(WriteNxdConfig(ParseOk(R"({"rank_pattern": {"q_proj": 3}})"), {}),
                                 Errc::kUnsupported, "no such option");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), "rank_pattern");
}

TEST(LoraConfig, LayersAreNumbers) {
  EXPECT_EQ(models::LayerOf("model.layers.12.mlp.up_proj"), 12);
  EXPECT_EQ(models::LayerOf("layers.3.mlp.up_proj"), 3);  // the inner module's
  EXPECT_EQ(models::LayerOf("model.players.3.mlp"), -1);
  EXPECT_EQ(models::LayerOf("lm_head"), -1);
  EXPECT_EQ(models::LayerOf("model.layers.x.y"), -1);
  EXPECT_EQ(models::LayerOf("model.layers.99999999999999999999.y"), -1);
}

}  // namespace
}  // namespace nxdkit::lora
