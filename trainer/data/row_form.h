// PRIVATE to trainer/data. What a row asks and what its answer is, in the forms that rows have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/json/json.h"
#include "trainer/template/chat_template.h"

namespace nxdkit::trainer {

struct RowText {
  std::vector<ChatMessage> messages;  // the last one is the user's
  std::string answer;
};

struct RowKeys {
  std::string prompt, answer;  // the columns of the options
};

struct RowForm {
  std::string_view name;         // "Alpaca", as a row of it is called; "" for the columns
  std::string_view prompt_text;  // how they are had
  std::string_view answer_text;
  bool (*fits)(const Json& row, const RowKeys& keys);
  Result<std::vector<ChatMessage>> (*prompt)(const Json& row, const RowKeys& keys);
  Result<std::string> (*answer)(const Json& row, const RowKeys& keys);
};

// How the rows of a data set are read, by its first one: the columns of the options where they are
// there, and where the column of prompts is not said (it is "prompt") nor there, a form that
// programs of others have. The column of answers, where the first row has it, is the answer in
// every form.
class RowReading {
 public:
  RowReading(const Json& first_row, const RowKeys& keys);

  Result<RowText> Read(const Json& row) const;
  // "Alpaca's: instruction, ... as the prompt, output as the answer"; "" where the columns are read
  // and no other of the row says otherwise.
  const std::string& text() const { return text_; }
  std::string_view name() const { return form_->name; }

 private:
  RowKeys keys_;
  const RowForm* form_;
  bool has_answer_;  // in the column of the options
  std::string text_;
};

// The columns that these forms have beside those of the options.
std::vector<std::string> ColumnsOfForms();

}  // namespace nxdkit::trainer
