#include "trainer/loop/text_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/lib/temp_folder.h"

namespace nxdkit::trainer {
namespace {

namespace fs = std::filesystem;

class TextFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"config.json", "generation_config.json", "tokenizer.json",
                             "added_tokens.json", "vocab.json", "model.safetensors"})
      testing_util::WriteText(model_ / name, "model's");
    for (const char* name :
         {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
          "special_tokens_map.json", "chat_template.jinja", "README.md"})
      testing_util::WriteText(tokenizer_ / name, "tokenizer's");
  }
  // The owner of each file.
  std::map<std::string, std::string> Found() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(model_.path())) {
      std::ifstream file(entry.path());
      std::getline(file, files[entry.path().filename()]);
    }
    return files;
  }
  const testing_util::TempFolder model_, tokenizer_;
};

TEST_F(TextFilesTest, TheModelsOwnStayWhereNothingElseIsNamed) {
  const auto before = Found();
  ASSERT_TRUE(WriteTextFiles({}, model_.path()).ok());
  EXPECT_EQ(Found(), before);
}

TEST_F(TextFilesTest, TwoTokenizersAreNotMixed) {
  ASSERT_TRUE(WriteTextFiles({tokenizer_.path(), ""}, model_.path()).ok());
  const std::map<std::string, std::string> expected = {{"config.json", "model's"},
                                                       {"generation_config.json", "model's"},
                                                       {"model.safetensors", "model's"},
                                                       {"tokenizer.json", "tokenizer's"},
                                                       {"tokenizer_config.json", "tokenizer's"},
                                                       {"special_tokens_map.json", "tokenizer's"},
                                                       {"chat_template.jinja", "tokenizer's"}};
  EXPECT_EQ(Found(), expected);
}

TEST_F(TextFilesTest, WhatTheModelLacksComesFromTheTokenizer) {
  fs::remove(model_ / "generation_config.json");
  ASSERT_TRUE(WriteTextFiles({tokenizer_.path(), "mine"}, model_.path()).ok());
  EXPECT_EQ(Found().at("generation_config.json"), "tokenizer's");
  EXPECT_EQ(Found().at("chat_template.jinja"), "mine");
}

}  // namespace
}  // namespace nxdkit::trainer
