#include "trainer/model/decoder_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/json/json.h"
#include "lib/system/file.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::trainer {
namespace {

using testing_util::ExpectError;

// testdata/decoder/rope.py asked transformers about every spelling.
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
              "rope type longrope is not built into this trainer");
  ExpectError(parse(Config({{"full_attention", {{"rope_type", "default"}}}})), Errc::kUnsupported,
              "a rotary embedding of its own for full_attention is not built");
}

// tests/interop/config_sweep_interop.py asks transformers about every key; here is what is refused
// without it, and what is not.
TEST(DecoderConfig, RefusesKeysThatItDoesNotKnow) {
  const auto parse = [](const char* key, const Json& value) {
    Json config = Config(nullptr);
    config[key] = value;
    return ParseDecoderConfig(config.dump(), "config.json");
  };
  for (const Json& value : {Json(2.0), Json(true), Json("on"), Json::array({1})}) {
    const auto refused = ExpectError(parse("logit_scale", value), Errc::kUnsupported,
                                     "this trainer does not know what");
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
              "layer 0 slides, and there is no sliding_window in use");
  config["layer_types"] = {"chunked_attention", "full_attention"};
  ExpectError(ParseDecoderConfig(config.dump(), "config.json"), Errc::kUnsupported,
              "\"chunked_attention\" is not built into this trainer");
}

// transformers turns half of each head then, where this trainer would turn all of it.
TEST(DecoderConfig, RefusesToTurnAPartOfEachHead) {
  Json config = Config({{"rope_type", "linear"}, {"factor", 2}});
  config["partial_rotary_factor"] = 0.5;
  const auto refused = ExpectError(ParseDecoderConfig(config.dump(), "config.json"),
                                   Errc::kUnsupported, "0.5 is not built into this trainer: 1 is");
  EXPECT_EQ(refused->member(), "partial_rotary_factor");
}

}  // namespace
}  // namespace nxdkit::trainer
