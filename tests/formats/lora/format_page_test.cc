#include "tests/formats/format_page.h"

#include "formats/lora/read_config.h"
#include "tests/formats/scratch.h"

namespace nxdkit::lora {
namespace {

TEST(FormatPage, OfLoraIsTrue) {
  testing_util::ExpectPageHolds("lora", {"tests/formats/lora", "tests/formats/kinds"});
  EXPECT_FALSE(HasFailure());
}

TEST(LoraTestdata, TheConfigurationReads) {
  const std::string path = std::string(NXDKIT_TESTDATA) + "/lora/adapter_config.json";
  const Result<Config> config = ParseConfig(testing_util::ReadBytes(path), path);
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->rank, 2);
  EXPECT_EQ(config->ScaleOf("model.layers.0.self_attn.q_proj"), 2.0);
}

}  // namespace
}  // namespace nxdkit::lora
