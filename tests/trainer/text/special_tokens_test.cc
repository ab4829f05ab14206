#include "trainer/text/special_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/temp_folder.h"
#include "tests/trainer/text/tokenizer_json.h"

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SpecialTokensTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    testing_util::WriteText(folder_ / name, text);
  }
  Result<SpecialTokens> Load() {
    return LoadSpecialTokens(folder_.path(), folder_.path(), tokenizer_);
  }

  testing_util::TempFolder folder_;
  Tokenizer tokenizer_ = *Tokenizer::Parse(testing::SmallTokenizer().dump());
};

TEST_F(SpecialTokensTest, TakesTheListOfTheGenerationConfig) {
  Write("tokenizer_config.json",
        R"({"eos_token": {"content": "<|end|>"}, "pad_token": "<t>", "bos_token": null})");
  Write("generation_config.json", R"({"eos_token_id": [261, 260, 261]})");
  Write("config.json", R"({"eos_token_id": 3})");
  const Result<SpecialTokens> special = Load();
  ASSERT_TRUE(special.ok()) << special.error().ToString();
  EXPECT_THAT(special->eos_ids, ElementsAre(261, 260));
  EXPECT_EQ(special->eos_token, "<|end|>");
  EXPECT_EQ(special->pad, 261);
  EXPECT_EQ(special->bos, std::nullopt);
}

TEST_F(SpecialTokensTest, FallsBackFileByFile) {
  Write("config.json", R"({"eos_token_id": 7})");
  Result<SpecialTokens> special = Load();
  ASSERT_TRUE(special.ok()) << special.error().ToString();
  EXPECT_THAT(special->eos_ids, ElementsAre(7));
  EXPECT_EQ(special->pad, 7);

  Write("generation_config.json", R"({"pad_token_id": 9})");
  special = Load();
  ASSERT_TRUE(special.ok()) << special.error().ToString();
  EXPECT_EQ(special->pad, 9);

  Write("tokenizer_config.json", R"({"eos_token": "<|end|>"})");
  special = Load();
  ASSERT_TRUE(special.ok()) << special.error().ToString();
  EXPECT_THAT(special->eos_ids, ElementsAre(7));
  EXPECT_EQ(special->pad, 260) << "as the reference trainer has it: eos_token pads";
}

TEST_F(SpecialTokensTest, NamesWhatIsWrong) {
  Result<SpecialTokens> special = Load();
  ASSERT_FALSE(special.ok());
  EXPECT_EQ(special.error().code(), Errc::kNotFound);

  Write("generation_config.json", R"({"eos_token_id": [5, 262]})");
  special = Load();
  ASSERT_FALSE(special.ok());
  EXPECT_EQ(special.error().code(), Errc::kCorrupt);
  EXPECT_EQ(special.error().member(), "eos_token_id");
  EXPECT_THAT(special.error().message(), HasSubstr("262 is not an id, expected 0 to 261"));

  Write("tokenizer_config.json", R"({"pad_token": "<pad>"})");
  special = Load();
  ASSERT_FALSE(special.ok());
  EXPECT_EQ(special.error().member(), "pad_token");
  EXPECT_THAT(special.error().message(), HasSubstr("'<pad>' is not a token"));

  Write("tokenizer_config.json", R"({"added_tokens_decoder": {"262": {"content": "<new>"}}})");
  special = Load();
  ASSERT_FALSE(special.ok());
  EXPECT_EQ(special.error().member(), "added_tokens_decoder");
  EXPECT_THAT(special.error().message(), HasSubstr("'<new>' has id 262 here, and is not in"));
}

}  // namespace
}  // namespace nxdkit::trainer
