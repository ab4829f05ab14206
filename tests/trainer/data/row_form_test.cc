#include "trainer/data/row_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"

namespace nxdkit::trainer {
namespace {

using testing_util::ExpectError;

const RowKeys kKeys = {"prompt", "answer"};

Result<RowText> Read(const char* row, const RowKeys& keys = kKeys) {
  const Json json = Json::parse(row);
  return FormOf(json, keys).read(json, keys);
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
      {R"({"instruction": "Add.", "input": "1+1", "output": "2"})", "Alpaca",
       "user: Add.\n1+1 => 2"},
      {R"({"instruction": "1+1", "input": "", "output": "2", "history": []})", "Alpaca",
       "user: 1+1 => 2"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Shown(Read(row.row)), row.shown) << row.row;
    EXPECT_EQ(FormOf(Json::parse(row.row), kKeys).name, row.name) << row.row;
  }
}

// Who names a column means it.
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
       Errc::kUnsupported, "a message of \"tool\", expected system, user or assistant"},
      {R"({"conversations": [{"role": "user", "content": "a"}]})", Errc::kCorrupt,
       "expected a message with from and value"},
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
