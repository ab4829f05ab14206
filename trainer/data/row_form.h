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
  std::string_view name;  // "Alpaca", as a row of it is called; "" for the columns of the options
  std::string_view how;   // how it is read
  bool (*fits)(const Json& row, const RowKeys& keys);
  Result<RowText> (*read)(const Json& row, const RowKeys& keys);
};

// The form of a data set, by its first row: the columns of the options where they are there, and
// where they are not said (they are "prompt" and "answer"), a form that programs of others have.
const RowForm& FormOf(const Json& first_row, const RowKeys& keys);

// The columns that these forms have beside those of the options.
std::vector<std::string> ColumnsOfForms();

}  // namespace nxdkit::trainer
