// PRIVATE to trainer/data. The question of a row and its answer, in the known forms of rows.
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
  std::string_view name;         // "Alpaca", the name of a form; "" for the columns
  std::string_view prompt_text;  // how they are formed
  std::string_view answer_text;
  bool (*fits)(const Json& row, const RowKeys& keys);
  Result<std::vector<ChatMessage>> (*prompt)(const Json& row, const RowKeys& keys);
  Result<std::string> (*answer)(const Json& row, const RowKeys& keys);
};

// How the rows of a data set are read, decided by its first row: by the columns of the options if
// present; if the column of prompts was not chosen (it is "prompt") and is missing, in a form of
// other programs. The column of answers, if the first row has it, is the answer in every form.
class RowReading {
 public:
  RowReading(const Json& first_row, const RowKeys& keys);

  Result<RowText> Read(const Json& row) const;
  // "Alpaca's: instruction, ... as the prompt, output as the answer"; "" if the columns are read
  // and nothing else in the row contradicts them.
  const std::string& text() const { return text_; }
  std::string_view name() const { return form_->name; }

 private:
  RowKeys keys_;
  const RowForm* form_;
  bool has_answer_;  // in the column of the options
  std::string text_;
};

// The columns that these forms use in addition to those of the options.
std::vector<std::string> ColumnsOfForms();

}  // namespace nxdkit::trainer
