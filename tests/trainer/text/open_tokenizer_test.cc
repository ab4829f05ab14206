#include "trainer/text/open_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"
#include "tests/trainer/text/tokenizer_json.h"

namespace nxdkit::trainer {
namespace {

using Ids = std::vector<int32_t>;
using testing_util::ExpectError;
using testing_util::WriteText;

const std::string kLlama2 = NXDKIT_TESTDATA "/tokenizer/llama2/tokenizer.json";

std::vector<Ids> IdsOf(const std::string& tokenizer_config) {
  const testing_util::TempFolder folder;
  std::filesystem::create_symlink(kLlama2, folder / "tokenizer.json");
  WriteText(folder / "tokenizer_config.json", tokenizer_config);
  const auto tokenizer = OpenTokenizer(folder.path());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  std::vector<Ids> all;
  for (const char* text : {"the fox", "<s>the", "  two", "</s> a<s>b"})
    all.push_back(*tokenizer->Encode(text, false));
  return all;
}

// The answers of AutoTokenizer of transformers 5.19 for these folders; tests/interop compares them
// with the library.
TEST(OpenTokenizer, TheClassCountsForLlama) {
  using ::testing::ElementsAre;
  EXPECT_THAT(
      IdsOf(R"({"tokenizer_class": "LlamaTokenizerFast"})"),
      ElementsAre(Ids{236, 56, 481}, Ids{1, 137, 56}, Ids{123, 71, 74, 66}, Ids{2, 130, 1, 53}));
  EXPECT_THAT(
      IdsOf(R"({"tokenizer_class": "LlamaTokenizer", "legacy": true})"),
      ElementsAre(Ids{236, 56, 481}, Ids{1, 236, 56}, Ids{123, 71, 74, 66}, Ids{2, 130, 1, 149}));
  EXPECT_THAT(
      IdsOf(R"({"tokenizer_class": "LlamaTokenizer", "add_prefix_space": false})"),
      ElementsAre(Ids{137, 56, 481}, Ids{1, 137, 56}, Ids{123, 71, 74, 66}, Ids{2, 130, 1, 53}));
}

// For any other class the file itself decides, as in the library.
TEST(OpenTokenizer, OfOtherClassesTheFileCounts) {
  const auto file = Tokenizer::Open(kLlama2);
  ASSERT_TRUE(file.ok());
  for (const char* config : {R"({"tokenizer_class": "PreTrainedTokenizerFast"})", "{}"})
    EXPECT_EQ(IdsOf(config)[1], *file->Encode("<s>the", false)) << config;
}

// tests/interop compares this with transformers.
TEST(OpenTokenizer, AddedTokensAreThoseOfAllFiles) {
  const testing_util::TempFolder folder;
  const auto encoded = [&](const char* text) {
    const auto tokenizer = OpenTokenizer(folder.path());
    return tokenizer.ok() ? *tokenizer->Encode(text, false) : Ids{};
  };
  WriteText(folder / "tokenizer.json", testing::SmallTokenizer().dump());
  const Ids before = encoded("x <|end|> y<q>");
  WriteText(folder / "tokenizer_config.json",
            R"({"added_tokens_decoder": {"260": {"content": "<|end|>", "lstrip": true}}})");
  EXPECT_EQ(encoded("x <|end|> y<q>").size(), before.size() - 1) << "the space belongs to it";
  WriteText(folder / "tokenizer_config.json", "{}");
  WriteText(folder / "special_tokens_map.json", R"({"pad_token": "<q>"})");
  EXPECT_EQ(encoded("<q>"), Ids{262});
  WriteText(folder / "special_tokens_map.json", "{}");
  WriteText(folder / "added_tokens.json", R"({"<r>": 263, "<q>": 262})");
  EXPECT_EQ(encoded("<r><q>"), (Ids{263, 262}));
  WriteText(folder / "tokenizer_config.json", R"({"split_special_tokens": true})");
  const auto error = ExpectError(OpenTokenizer(folder.path()), Errc::kUnsupported,
                                 "special tokens that are not found in texts");
  EXPECT_EQ(error->member(), "split_special_tokens");
  EXPECT_EQ(error->file(), folder / "tokenizer_config.json");
}

}  // namespace
}  // namespace nxdkit::trainer
