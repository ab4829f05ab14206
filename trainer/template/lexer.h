// The tokens of a template, with white space already removed according to trim_blocks,
// lstrip_blocks and the signs '-' and '+'. Follows Jinja 3.1 with the settings of transformers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "trainer/template/ast.h"

namespace nxdkit::trainer::jinja {

enum class TokenKind {
  kText,           // outside of tags; `text` is to be printed
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,  // `text` is the value
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  size_t offset = 0;  // in the source with "\n" as line ends
};

// kCorrupt with line and column for characters that no tag can contain.
Result<std::vector<Token>> Tokenize(std::string_view source, Spaces spaces);

// "\r\n" and "\r" become "\n", and the last line end is removed.
std::string NormalizeNewlines(std::string_view source);

// "line 3 column 14: WHAT", for an offset into the normalized source.
Error ErrorAt(Errc code, std::string_view source, size_t offset, std::string_view what);

}  // namespace nxdkit::trainer::jinja
