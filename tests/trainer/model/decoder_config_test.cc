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
