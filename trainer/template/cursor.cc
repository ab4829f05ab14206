#include "trainer/template/cursor.h"

#include <fmt/core.h>

#include <algorithm>

namespace nxdkit::trainer::jinja {
namespace {

std::string Shown(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kText:
      return "text";
    case TokenKind::kString:
      return "a string";
    default:
      return fmt::format("'{}'", token.text);
  }
}

}  // namespace

const Token& TokenCursor::peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

const Token& TokenCursor::Next() {
  const Token& token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenCursor::IsOperator(std::string_view op) const {
  return peek().kind == TokenKind::kOperator && peek().text == op;
}

bool TokenCursor::IsName(std::string_view name) const {
  return peek().kind == TokenKind::kName && peek().text == name;
}

bool TokenCursor::HasName(size_t from, std::string_view name) const {
  const auto is_it = [&](const Token& token) {
    return token.kind == TokenKind::kName && token.text == name;
  };
  return std::any_of(tokens_.begin() + static_cast<ptrdiff_t>(from),
                     tokens_.begin() + static_cast<ptrdiff_t>(at_), is_it);
}

bool TokenCursor::TakeOperator(std::string_view op) {
  if (!IsOperator(op)) return false;
  Next();
  return true;
}

bool TokenCursor::TakeName(std::string_view name) {
  if (!IsName(name)) return false;
  Next();
  return true;
}

Status TokenCursor::ExpectOperator(std::string_view op) {
  if (TakeOperator(op)) return OkStatus();
  return Unexpected(fmt::format("'{}'", op));
}

Result<std::string> TokenCursor::ExpectName(std::string_view what) {
  if (peek().kind != TokenKind::kName) return Unexpected(what);
  return Next().text;
}

Status TokenCursor::Expect(TokenKind kind, std::string_view what) {
  if (peek().kind != kind) return Unexpected(what);
  Next();
  return OkStatus();
}

Error TokenCursor::Fail(Errc code, size_t offset, std::string_view what) const {
  return ErrorAt(code, source_, offset, what);
}

Error TokenCursor::Unexpected(std::string_view expected) const {
  return Fail(Errc::kCorrupt, peek().offset,
              fmt::format("found {}, expected {}", Shown(peek()), expected));
}

}  // namespace nxdkit::trainer::jinja
