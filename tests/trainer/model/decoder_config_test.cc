#include "trainer/model/decoder_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/json/json.h"
#include "lib/system/file.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::trainer {
namespace {

using testing_util::ExpectError;

// testdata/decoder/rope.py computed every spelling with transformers.
TEST(DecoderConfig, ReadsTheRotaryEmbeddingAsTransformersDoes) {
  const auto text = ReadSmallFile(NXDKIT_TESTDATA "/decoder/rope.json", 1 << 20);
  ASSERT_TRUE(text.ok());
  for (const Json& row : Json::parse(*text)) {
    SCOPED_TRACE(row["case"].get<std::string>() + " " + row["config"].dump());
    const auto config = ParseDecoderConfig(row["config"].dump(), "config.json");
    const Json& expected = row["frequencies"];
    EXPECT_EQ(config.ok(), !expected.is_null());
    if (!config.ok() || expected.is_null()) continue;
    ASSERT_EQ(config->rope.frequencies.size(), expected.size());
    EXPECT_NEAR(config->rope.scale, row["scale"].get<double>(), 1e-6);
    for (size_t i = 0; i < expected.size(); ++i) {
      const double frequency = expected[i].get<double>();
      EXPECT_NEAR(config->rope.frequencies[i], frequency, 2e-6 * frequency) << i;
    }
  }
}

Json Config(const Json& rules) {
  const auto text = ReadSmallFile(NXDKIT_TESTDATA "/decoder/rope.json", 1 << 20);
  Json config = Json::parse(*text)[0]["config"];
  config["rope_scaling"] = rules;
  return config;
}

TEST(DecoderConfig, NamesWhatTheRotaryEmbeddingLacks) {
  const auto parse = [](const Json& config) {
    return ParseDecoderConfig(config.dump(), "config.json");
  };
  const auto no_factor = ExpectError(parse(Config({{"rope_type", "linear"}})), Errc::kCorrupt,
                                     "rope type linear needs a factor");
  EXPECT_EQ(no_factor->member(), "rope_scaling");
  ExpectError(parse(Config({{"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}})),
              Errc::kCorrupt, "rope type llama3 needs a high_freq_factor");
  ExpectError(parse(Config("linear")), Errc::kCorrupt, "found \"linear\", expected an object");
  ExpectError(parse(Config({{"rope_type", "longrope"}, {"factor", 8}})), Errc::kUnsupported,
              "rope type longrope is not supported by this trainer");
  ExpectError(parse(Config({{"full_attention", {{"rope_type", "default"}}}})), Errc::kUnsupported,
              "a separate rotary embedding for full_attention is not supported");
}

// Found with random configurations: transformers refuses each, or interprets it differently.
TEST(DecoderConfig, RefusesRulesThatMeanNothing) {
  const Json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}};
  const auto with = [](Json rules, const char* key, const Json& value) {
    rules[key] = value;
    return rules;
  };
  const struct {
    Json rules;
    const char* key;
    const char* message;
  } rows[] = {
      {{{"rope_type", nullptr}, {"factor", 2}}, "rope_type", "found null in rope_scaling"},
      {{{"rope_type", 5}}, "rope_type", "found 5 in rope_scaling"},
      {{{"type", nullptr}, {"factor", 2}}, "type", "expected the name of a rope type"},
      {{{"rope_type", nullptr}, {"type", "linear"}, {"factor", 2}}, "rope_type", "found null"},
      {{{"rope_type", "linear"}, {"factor", nullptr}}, "factor", "found null, expected a positive"},
      {{{"rope_type", "default"}, {"rope_theta", nullptr}}, "rope_theta", "found null"},
      {with(yarn, "original_max_position_embeddings", nullptr), "original_max_position_embeddings",
       "found null"},
      {with(yarn, "partial_rotary_factor", nullptr), "partial_rotary_factor", "found null"},
      {with(yarn, "truncate", 1), "truncate", "found 1, expected true or false"},
      {with(yarn, "rope_theta", 1), "rope_theta", "found 1, and rope type yarn divides by its"},
      {{{"rope_type", "default"}, {"rope_theta", 1e-300}},
       "rope_scaling",
       "makes a frequency of inf of its numbers, with a rope_theta of 1e-300"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.rules.dump());
    const auto error = ExpectError(ParseDecoderConfig(Config(row.rules).dump(), "config.json"),
                                   Errc::kCorrupt, row.message);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->member(), row.key);
  }
  Json two = Config({{"rope_type", "dynamic"}, {"factor", 2}});
  two["head_dim"] = 2;
  ExpectError(ParseDecoderConfig(two.dump(), "config.json"), Errc::kCorrupt,
              "rope type dynamic needs heads of more than 2, found 2");
  Json null_theta = Config(nullptr);
  null_theta["rope_theta"] = nullptr;
  ExpectError(ParseDecoderConfig(null_theta.dump(), "config.json"), Errc::kCorrupt, "found null");
}

std::vector<float> Frequencies(const Json& rules) {
  const auto parsed = ParseDecoderConfig(Config(rules).dump(), "config.json");
  EXPECT_TRUE(parsed.ok()) << parsed.error().ToString();
  return parsed.ok() ? parsed->rope.frequencies : std::vector<float>();
}

// A null is false to Python.
TEST(DecoderConfig, YarnWithANullForTruncateIsNotTruncated) {
  Json rules = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
  const std::vector<float> truncated = Frequencies(rules);
  rules["truncate"] = false;
  const std::vector<float> exact = Frequencies(rules);
  EXPECT_NE(exact, truncated);
  rules["truncate"] = nullptr;
  EXPECT_EQ(Frequencies(rules), exact);
}

// Everything above the long one is slowed, even where the short one is longer.
TEST(DecoderConfig, Llama3WithItsFactorsTheOtherWayRound) {
  const std::vector<float> slowed = Frequencies({{"rope_type", "linear"}, {"factor", 8.0}});
  const std::vector<float> found = Frequencies({{"rope_type", "llama3"},
                                                {"factor", 8.0},
                                                {"low_freq_factor", 4.0},
                                                {"high_freq_factor", 1.0},
                                                {"original_max_position_embeddings", 512}});
  ASSERT_EQ(found.size(), slowed.size());
  EXPECT_FLOAT_EQ(found.back(), slowed.back());
  EXPECT_FLOAT_EQ(found.front(), 1.0f);
}

TEST(DecoderConfig, ALlamaHasNoLayersWithWindows) {
  Json config = Config(nullptr);
  config["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_TRUE(ParseDecoderConfig(config.dump(), "config.json").ok());
  config["layer_types"] = {"sliding_attention", "full_attention"};
  const auto error = ExpectError(ParseDecoderConfig(config.dump(), "config.json"),
                                 Errc::kUnsupported, "\"sliding_attention\" is not supported");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), "layer_types");
}

TEST(DecoderConfig, RefusesWindowsThatMeanNothing) {
  const struct {
    const char* key;
    Json value;
    const char* model_type;
    const char* message;
  } rows[] = {
      {"layer_types", {"full_attention"}, "llama", "expected an array of 2 names"},
      {"sliding_window", 0, "llama", "found 0, expected a positive number"},
      {"max_window_layers", nullptr, "qwen2", "found null, expected an integer"},
      {"max_window_layers", "x", "qwen2", "found \"x\", expected an integer"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.key);
    Json config = Config(nullptr);
    config["model_type"] = row.model_type;
    config["architectures"] = {row.model_type == std::string("llama") ? "LlamaForCausalLM"
                                                                      : "Qwen2ForCausalLM"};
    config[row.key] = row.value;
    const auto error =
        ExpectError(ParseDecoderConfig(config.dump(), "config.json"), Errc::kCorrupt, row.message);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->member(), row.key);
  }
}

TEST(DecoderConfig, ANullIsNoActivationAndNoDropout) {
  for (const char* key : {"hidden_act", "attention_dropout"}) {
    Json config = Config(nullptr);
    config[key] = nullptr;
    const auto error = ExpectError(ParseDecoderConfig(config.dump(), "config.json"),
                                   Errc::kUnsupported, "null is not supported by this trainer");
    ASSERT_TRUE(error);
    EXPECT_EQ(error->member(), key);
  }
}

// Every token would see the later ones.
TEST(DecoderConfig, RefusesAModelThatIsNotCausal) {
  for (const Json& value : {Json(false), Json(), Json(0)}) {
    Json config = Config(nullptr);
    config["is_causal"] = value;
    const auto error = ExpectError(ParseDecoderConfig(config.dump(), "config.json"),
                                   Errc::kUnsupported, value.dump() + " is not supported");
    ASSERT_TRUE(error);
    EXPECT_EQ(error->member(), "is_causal");
  }
  Json config = Config(nullptr);
  config["is_causal"] = true;
  EXPECT_TRUE(ParseDecoderConfig(config.dump(), "config.json").ok());
}

TEST(DecoderConfig, ANullIsNoFlag) {
  for (const char* key : {"attention_bias", "mlp_bias", "tie_word_embeddings"}) {
    Json config = Config(nullptr);
    config[key] = nullptr;
    const auto error = ExpectError(ParseDecoderConfig(config.dump(), "config.json"), Errc::kCorrupt,
                                   "found null, expected true or false");
    ASSERT_TRUE(error);
    EXPECT_EQ(error->member(), key);
  }
}

TEST(DecoderConfig, ANullWhereANumberIsNeededIsRefused) {
  for (const char* key : {"max_position_embeddings", "rms_norm_eps"}) {
    Json config = Config(nullptr);
    config[key] = nullptr;
    const auto error = ExpectError(ParseDecoderConfig(config.dump(), "config.json"), Errc::kCorrupt,
                                   "found null, expected a positive number");
    ASSERT_TRUE(error);
    EXPECT_EQ(error->member(), key);
  }
}

// tests/interop/config_sweep_interop.py compares every key with transformers; here are the keys
// refused without it, and the accepted ones.
TEST(DecoderConfig, RefusesKeysThatItDoesNotKnow) {
  const auto parse = [](const char* key, const Json& value) {
    Json config = Config(nullptr);
    config[key] = value;
    return ParseDecoderConfig(config.dump(), "config.json");
  };
  for (const Json& value : {Json(2.0), Json(true), Json("on"), Json::array({1})}) {
    const auto refused = ExpectError(parse("logit_scale", value), Errc::kUnsupported,
                                     "this trainer does not know the effect");
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->member(), "logit_scale");
  }
  ExpectError(parse("quantization_config", {{"quant_method", "fp8"}}), Errc::kUnsupported,
              "does not know");
  for (const Json& value : {Json(), Json(false), Json::array(), Json::object()})
    EXPECT_TRUE(parse("use_mrope", value).ok()) << value;
  for (const char* key : {"_name_or_path", "unsloth_version", "transformers_version", "prefix"})
    EXPECT_TRUE(parse(key, "x").ok()) << key;
}

TEST(DecoderConfig, ReadsTheWindowsOfQwen) {
  Json config = Config(nullptr);
  const auto windows = [&] {
    const auto parsed = ParseDecoderConfig(config.dump(), "config.json");
    EXPECT_TRUE(parsed.ok());
    return parsed.ok() ? parsed->windows : std::vector<int64_t>();
  };
  using ::testing::ElementsAre;
  config["use_sliding_window"] = true;
  config["sliding_window"] = 5;
  config["max_window_layers"] = 1;
  EXPECT_THAT(windows(), ElementsAre(0, 0)) << "a llama has none";
  config["model_type"] = "qwen2";
  config["architectures"] = {"Qwen2ForCausalLM"};
  EXPECT_THAT(windows(), ElementsAre(0, 5));
  config["layer_types"] = {"sliding_attention", "full_attention"};
  EXPECT_THAT(windows(), ElementsAre(5, 0)) << "layer_types win";
  config["use_sliding_window"] = false;
  ExpectError(ParseDecoderConfig(config.dump(), "config.json"), Errc::kCorrupt,
              "layer 0 slides, but no sliding_window is in use");
  config["layer_types"] = {"chunked_attention", "full_attention"};
  ExpectError(ParseDecoderConfig(config.dump(), "config.json"), Errc::kUnsupported,
              "\"chunked_attention\" is not supported by this trainer");
}

// transformers rotates half of each head then, where this trainer would rotate all of it.
TEST(DecoderConfig, RefusesToTurnAPartOfEachHead) {
  Json config = Config({{"rope_type", "linear"}, {"factor", 2}});
  config["partial_rotary_factor"] = 0.5;
  const auto refused =
      ExpectError(ParseDecoderConfig(config.dump(), "config.json"), Errc::kUnsupported,
                  "0.5 is not supported by this trainer: 1 is");
  EXPECT_EQ(refused->member(), "partial_rotary_factor");
}

}  // namespace
}  // namespace nxdkit::trainer
