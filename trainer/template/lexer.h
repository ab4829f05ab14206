// The tokens of a template, with white space already taken away as trim_blocks, lstrip_blocks and
// the signs '-' and '+' say. Follows what Jinja 3.1 does with the settings of transformers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "trainer/template/ast.h"

namespace nxdkit::trainer::jinja {

enum class TokenKind {
  kText,           // outside of tags; `text` is what to print
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
  size_t offset = 0;  // in the source with its line ends made "\n"
};

// kCorrupt with line and column for what no tag can hold.
Result<std::vector<Token>> Tokenize(std::string_view source, Spaces spaces);

// "\r\n" and "\r" become "\n", and the last line end is removed.
std::string NormalizeNewlines(std::string_view source);

// "line 3 column 14: WHAT", of an offset into the normalized source.
Error ErrorAt(Errc code, std::string_view source, size_t offset, std::string_view what);

}  // namespace nxdkit::trainer::jinja
