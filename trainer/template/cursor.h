// A place in the tokens of a template; the parsers of expressions and statements share it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/template/lexer.h"

namespace nxdkit::trainer::jinja {

class TokenCursor {
 public:
  TokenCursor(std::string_view source, const std::vector<Token>& tokens)
      : source_(source), tokens_(tokens) {}

  const Token& peek(size_t ahead = 0) const;
  const Token& Next();
  size_t place() const { return at_; }
  // Whether the name occurs in the tokens from position `from` up to here.
  bool HasName(size_t from, std::string_view name) const;
  bool IsOperator(std::string_view op) const;
  bool IsName(std::string_view name) const;
  // Takes the token if it is this operator.
  bool TakeOperator(std::string_view op);
  bool TakeName(std::string_view name);
  Status ExpectOperator(std::string_view op);
  Result<std::string> ExpectName(std::string_view what);
  Status Expect(TokenKind kind, std::string_view what);
  // Calls `each`, which returns a Status, for each item of a comma-separated list, and takes
  // `close`.
  template <typename Each>
  Status Separated(std::string_view close, const Each& each) {
    while (!TakeOperator(close)) {
      NXDKIT_TRY(each());
      if (!TakeOperator(",") && !IsOperator(close))
        return Unexpected("',' or '" + std::string(close) + "'");
    }
    return OkStatus();
  }

  // An error with line and column of a token, or of an offset.
  Error Fail(Errc code, size_t offset, std::string_view what) const;
  Error Unexpected(std::string_view expected) const;

 private:
  std::string_view source_;
  const std::vector<Token>& tokens_;
  size_t at_ = 0;
};

}  // namespace nxdkit::trainer::jinja
