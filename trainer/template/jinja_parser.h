// From tokens to a tree.
#pragma once

#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "trainer/template/jinja_ast.h"
#include "trainer/template/jinja_lexer.h"

namespace nxdkit::trainer::jinja {

// A cursor over tokens, with the limits on nesting; the two parsers share it.
class TokenCursor {
 public:
  TokenCursor(std::string_view source, const std::vector<Token>& tokens)
      : source_(source), tokens_(tokens) {}

  const Token& peek(size_t ahead = 0) const;
  const Token& Next();
  bool IsOperator(std::string_view op) const;
  bool IsName(std::string_view name) const;
  // Takes the token when it is this one.
  bool TakeOperator(std::string_view op);
  bool TakeName(std::string_view name);
  Status ExpectOperator(std::string_view op);
  Result<std::string> ExpectName(std::string_view what);
  Status Expect(TokenKind kind, std::string_view what);

  // With line and column of a token, or of an offset.
  Error Fail(Errc code, size_t offset, std::string_view what) const;
  Error Unexpected(std::string_view expected) const;

 private:
  std::string_view source_;
  const std::vector<Token>& tokens_;
  size_t at_ = 0;
};

// An expression; with `tuple`, "a, b" makes a list. kCorrupt for what is not Jinja, kUnsupported
// for what is not known here.
Result<ExprPtr> ParseExpression(TokenCursor& cursor, bool tuple = false);
// The same with `tuple`, stopping before "if": what a for loop goes through.
Result<ExprPtr> ParseTupleNoIf(TokenCursor& cursor);

// `source` has its newlines normalized.
Result<std::vector<Stmt>> ParseTemplate(std::string_view source);

}  // namespace nxdkit::trainer::jinja
