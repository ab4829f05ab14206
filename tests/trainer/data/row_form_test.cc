#include "trainer/data/row_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"

namespace nxdkit::trainer {
namespace {

using testing_util::ExpectError;

const RowKeys kKeys = {"prompt", "answer"};

Result<RowText> Read(const std::string& row, const RowKeys& keys = kKeys) {
  const Json json = Json::parse(row);
  return RowReading(json, keys).Read(json);
}

std::string Replaced(std::string text, const std::string& word, const std::string& by) {
  for (size_t at; (at = text.find(word)) != text.npos;) text.replace(at, word.size(), by);
  return text;
}

// "role: text | role: text => answer"
std::string Shown(const Result<RowText>& text) {
  if (!text.ok()) return "error: " + text.error().ToString();
  std::string shown;
  for (const ChatMessage& message : text->messages)
    shown += (shown.empty() ? "" : " | ") + message.role + ": " + message.content;
  return shown + " => " + text->answer;
}

TEST(RowForm, RowsOfOthersAreRead) {
  const struct {
    const char* row;
    const char* name;
    const char* shown;
  } rows[] = {
      {R"({"prompt": "1+1", "answer": 2})", "", "user: 1+1 => 2"},
      {R"({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "1+1"}],
           "answer": "2"})",
       "", "system: s | user: 1+1 => 2"},
      {R"({"data_source": "d", "prompt": [{"role": "user", "content": "1+1"}],
           "reward_model": {"style": "rule", "ground_truth": "2"}, "extra_info": {}})",
       "verl", "user: 1+1 => 2"},
      {R"({"prompt": "1+1", "completion": "2"})", "TRL", "user: 1+1 => 2"},
      {R"({"prompt": [{"role": "user", "content": "1+1"}],
           "completion": [{"role": "assistant", "content": "2"}]})",
       "TRL", "user: 1+1 => 2"},
      {R"({"messages": [{"role": "user", "content": "1+1"},
           {"role": "assistant", "content": "2"}]})",
       "TRL", "user: 1+1 => 2"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "1+1"}]}],
           "answer": 2})",
       "TRL", "user: 1+1 => 2"},
      {R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"},
           {"from": "human", "value": "1+1"}, {"from": "gpt", "value": "2"}], "system": "s"})",
       "ShareGPT", "system: s | user: a | assistant: b | user: 1+1 => 2"},
      {R"({"conversations": [{"role": "system", "content": "s"}, {"role": "user", "content": "1+1"},
           {"role": "assistant", "content": "2"}], "system": "s"})",
       "ShareGPT", "system: s | user: 1+1 => 2"},
      {R"({"messages": [{"from": "human", "value": "1+1"}, {"from": "gpt", "value": "2"}]})", "TRL",
       "user: 1+1 => 2"},
      {R"({"instruction": "Add.", "input": "1+1", "output": "2"})", "Alpaca",
       "user: Add.\n1+1 => 2"},
      {R"({"instruction": "1+1", "input": "", "output": "2", "history": []})", "Alpaca",
       "user: 1+1 => 2"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Shown(Read(row.row)), row.shown) << row.row;
    EXPECT_EQ(RowReading(Json::parse(row.row), kKeys).name(), row.name) << row.row;
  }
}

// A named column of answers is the answer, whatever form the row has.
TEST(RowForm, TheColumnOfAnswersIsTheAnswerInEveryForm) {
  const struct {
    const char* row;
    const char* shown;
    const char* text;
  } rows[] = {
      {R"({"instruction": "1+1", "output": "so it is 2", "ANSWER": 2})", "user: 1+1 => 2",
       "Alpaca's: instruction, a line feed and input as the prompt, the column ANSWER as the "
       "answer"},
      {R"({"instruction": "1+1", "ANSWER": 2})", "user: 1+1 => 2", "Alpaca's: "},
      {R"({"conversations": [{"from": "human", "value": "1+1"},
           {"from": "gpt", "value": "so it is 2"}], "ANSWER": 2})",
       "user: 1+1 => 2",
       "ShareGPT's: conversations without the last turn of assistant as the prompt, the column "
       "ANSWER as the answer"},
      {R"({"messages": [{"role": "user", "content": "1+1"},
           {"role": "assistant", "content": "so it is 2"}], "ANSWER": 2})",
       "user: 1+1 => 2", "TRL's: messages without the last of assistant as the prompt, the column"},
      {R"({"prompt": "1+1", "completion": "so it is 2", "ANSWER": 2})", "user: 1+1 => 2", ""},
      {R"({"prompt": "1+1", "reward_model": {"ground_truth": "2"}, "ANSWER": 2})", "user: 1+1 => 2",
       ""},
  };
  for (const char* column : {"answer", "final"})
    for (const auto& row : rows) {
      const std::string json = Replaced(row.row, "ANSWER", column);
      SCOPED_TRACE(json);
      EXPECT_EQ(Shown(Read(json, {"prompt", column})), row.shown);
      EXPECT_THAT(RowReading(Json::parse(json), {"prompt", column}).text(),
                  testing::StartsWith(Replaced(row.text, "ANSWER", column)));
    }
}

// Rows with and without a column of answers have two different forms.
TEST(RowForm, TheFirstRowSaysWhereTheAnswerIs) {
  const Json with = Json::parse(R"({"messages": [{"role": "user", "content": "a"}], "answer": 1})");
  const Json without = Json::parse(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  ExpectError(RowReading(with, kKeys).Read(without), Errc::kCorrupt, "the column is missing");
  ExpectError(RowReading(without, kKeys).Read(with), Errc::kCorrupt,
              "the last message is of user, expected assistant");
}

TEST(RowForm, HowRowsAreReadIsToldWhereItMayBeMeantOtherwise) {
  const auto text = [](const char* row) { return RowReading(Json::parse(row), kKeys).text(); };
  EXPECT_EQ(text(R"({"prompt": "1+1", "completion": "2"})"),
            "TRL's: prompt as a user message through the chat template, completion as the answer");
  EXPECT_EQ(text(R"({"prompt": "1+1", "answer": "so 2", "reward_model": {"ground_truth": "2"}})"),
            "answer as the answer; reward_model.ground_truth of the first row, \"2\", differs");
  EXPECT_EQ(text(R"({"prompt": "1+1", "answer": "2"})"), "");
}

// A named column has precedence.
TEST(RowForm, ColumnsThatAreSaidWin) {
  const char* row = R"({"instruction": "a", "output": "b", "question": "q", "prompt": "p"})";
  EXPECT_EQ(Shown(Read(row, {"question", "output"})), "user: q => b");
  ExpectError(Read(row, {"problem", "answer"}), Errc::kCorrupt, "the column is missing");
  ExpectError(Read(R"({"prompt": "p", "completion": "c"})", {"prompt", "solution"}), Errc::kCorrupt,
              "the column is missing; there are: prompt, completion");
}

TEST(RowForm, WhatIsNotClearIsRefused) {
  const struct {
    const char* row;
    Errc code;
    const char* message;
  } rows[] = {
      {R"({"question": "q", "answer": "a"})", Errc::kCorrupt, "there are: question, answer"},
      {R"({"prompt": "p", "answer": null})", Errc::kCorrupt,
       "found null, expected a text or a finite number"},
      {R"({"prompt": "p", "chosen": "a", "rejected": "b"})", Errc::kCorrupt,
       "the column is missing; there are: prompt, chosen, rejected"},
      {R"({"messages": [{"role": "user", "content": "1+1"}]})", Errc::kCorrupt,
       "the last message is of user, expected assistant"},
      {R"({"messages": [{"role": "assistant", "content": "1"}]})", Errc::kCorrupt,
       "the last message before the answer is of nobody, expected user"},
      {R"({"conversations": [{"from": "tool", "value": "a"}, {"from": "gpt", "value": "b"}]})",
       Errc::kUnsupported, "a message of role \"tool\", expected system, user or assistant"},
      {R"({"conversations": [{"who": "user", "content": "a"}]})", Errc::kCorrupt,
       "expected a message with role and content, or from and value"},
      {R"({"conversations": [{"from": "system", "value": "t"}, {"from": "human", "value": "a"},
           {"from": "gpt", "value": "b"}], "system": "s"})",
       Errc::kUnsupported, "a row with two system messages that differ"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image"}]},
           {"role": "assistant", "content": "b"}]})",
       Errc::kUnsupported, "a message with \"image\""},
      {R"({"instruction": "a", "output": "b", "history": [["c", "d"]]})", Errc::kUnsupported,
       "a row with a history"},
      {R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
           "answer": 1})",
       Errc::kCorrupt, "the last message before the answer is of assistant, expected user"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.row);
    ExpectError(Read(row.row), row.code, row.message);
  }
}

}  // namespace
}  // namespace nxdkit::trainer
