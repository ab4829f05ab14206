// PRIVATE to formats/models: splits the text of a family into statements and words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::models {

struct Word {
  std::string_view text;
  uint32_t column = 0;  // from 1
};

// A directive or a row: it ends with the line or at a ";".
struct Statement {
  uint32_t line = 0;        // from 1
  std::string_view text;    // from the first word to the last
  std::vector<Word> words;  // at least one

  // The text from a word on; "" past the last.
  std::string_view From(size_t word) const;
  // The text from a word to before another.
  std::string_view Between(size_t first, size_t end) const;
  uint32_t ColumnOf(std::string_view part) const;  // of a part of the text
};

// kCorrupt on a control character or a byte that is not ASCII.
Result<std::vector<Statement>> ReadStatements(std::string_view text);

// kCorrupt "line 3, column 7: WHAT".
Error WrongAt(const Statement& statement, uint32_t column, std::string_view what);

}  // namespace nxdkit::models
