#include "trainer/template/lexer.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "lib/base/text.h"
#include "trainer/base/characters.h"
#include "trainer/template/python_text.h"

namespace nxdkit::trainer::jinja {
namespace {

// Longest first.
constexpr std::string_view kOperators[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           "<",  ">",  "=",  ".",  ":",  "|",  ",", ";"};

bool IsNameByte(char c) { return c == '_' || IsAlnum(c); }
bool IsNameStart(char c) { return IsNameByte(c) && !IsDigit(c); }

// The offset after the white space at `offset`.
size_t SkipSpace(std::string_view text, size_t offset) {
  while (const size_t bytes = SpaceBytes(text, offset)) offset += bytes;
  return offset;
}

// The value of a hexadecimal escape of exactly `digits` digits at `offset`.
std::optional<uint32_t> Hexadecimal(std::string_view text, size_t offset, size_t digits) {
  if (offset + digits > text.size()) return std::nullopt;
  uint32_t value = 0;
  const char* begin = text.data() + offset;
  const bool all = std::from_chars(begin, begin + digits, value, 16).ptr == begin + digits;
  return all ? std::optional(value) : std::nullopt;
}

struct Lexer {
  std::string_view source;
  const Spaces spaces;
  size_t at = 0;
  bool line_starting = true;
  std::vector<Token> tokens = {};

  Result<std::vector<Token>> Run() {
    while (at < source.size()) NXDKIT_TRY(TextAndTag());
    Add(TokenKind::kEnd, "", source.size());
    return std::move(tokens);
  }

  Error Fail(Errc code, size_t offset, std::string_view what) const {
    return ErrorAt(code, source, offset, what);
  }
  void Add(TokenKind kind, std::string_view text, size_t offset) {
    tokens.push_back({kind, std::string(text), offset});
  }
  bool Looks(std::string_view text) const { return source.substr(at, text.size()) == text; }

  Status TextAndTag() {
    const size_t begin = at;
    size_t open = source.find('{', at);
    while (open != std::string_view::npos && open + 1 < source.size() &&
           std::string_view("{%#").find(source[open + 1]) == std::string_view::npos)
      open = source.find('{', open + 1);
    if (open == std::string_view::npos || open + 1 >= source.size()) {
      AddText(source.substr(begin), begin);
      at = source.size();
      return OkStatus();
    }
    const char kind = source[open + 1];
    const char sign = open + 2 < source.size() ? source[open + 2] : '\0';
    AddText(Stripped(source.substr(begin, open - begin), kind, sign), begin);
    at = open + 2 + (sign == '-' || sign == '+' ? 1 : 0);
    if (kind == '#') return Comment(open);
    return Tag(open, kind == '%');
  }

  void AddText(std::string_view text, size_t offset) {
    if (!text.empty()) Add(TokenKind::kText, text, offset);
  }

  std::string_view Stripped(std::string_view text, char kind, char sign) const {
    if (sign == '-') return StripSpace(text, false, true);
    if (sign == '+' || kind == '{' || spaces == Spaces::kPlain) return text;
    const size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
    if (line == 0 && !line_starting) return text;
    return SkipSpace(text, line) == text.size() ? text.substr(0, line) : text;
  }

  // Skips after the closing sign of a tag: with '-' all white space, else the line end after blocks
  // and comments (trim_blocks).
  void AfterTag(char sign, bool trims) {
    const size_t begin = at;
    if (sign == '-')
      at = SkipSpace(source, at);
    else if (sign != '+' && trims && spaces == Spaces::kTrimmed && Looks("\n"))
      ++at;
    line_starting = at > begin && source[at - 1] == '\n';
  }

  Status Comment(size_t open) {
    const size_t close = source.find("#}", at);
    if (close == std::string_view::npos)
      return Fail(Errc::kCorrupt, open, "a comment that does not end");
    const char sign = close > at ? source[close - 1] : '\0';
    at = close + 2;
    AfterTag(sign, true);
    return OkStatus();
  }

  Status Tag(size_t open, bool is_block) {
    Add(is_block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, source.substr(open, 2),
        open);
    const std::string_view end = is_block ? "%}" : "}}";
    std::string brackets;
    for (;;) {
      at = SkipSpace(source, at);
      if (at >= source.size()) return Fail(Errc::kCorrupt, open, "a tag that does not end");
      const bool has_sign = Looks("-") || (is_block && Looks("+"));
      if (brackets.empty() && source.substr(at + (has_sign ? 1 : 0), 2) == end) {
        const char sign = has_sign ? source[at] : '\0';
        Add(is_block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, end, at);
        at += has_sign ? 3 : 2;
        AfterTag(sign, is_block);
        return OkStatus();
      }
      NXDKIT_TRY(InTag(&brackets));
    }
  }

  Status InTag(std::string* brackets) {
    const char c = source[at];
    if (IsNameStart(c)) return Name();
    if (IsDigit(c)) return Number();
    if (c == '"' || c == '\'') return String(c);
    for (const std::string_view op : kOperators) {
      if (!Looks(op)) continue;
      NXDKIT_TRY(Balance(op, brackets));
      Add(TokenKind::kOperator, op, at);
      at += op.size();
      return OkStatus();
    }
    return Fail(Errc::kCorrupt, at,
                fmt::format("unexpected character '{}'", *Points(source.substr(at, 4)).begin()));
  }

  Status Balance(std::string_view op, std::string* brackets) {
    constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (op.size() == 1 && kOpen.find(op) != std::string_view::npos) {
      brackets->push_back(kClose[kOpen.find(op)]);
    } else if (op.size() == 1 && kClose.find(op) != std::string_view::npos) {
      if (brackets->empty() || brackets->back() != op[0])
        return Fail(Errc::kCorrupt, at, fmt::format("'{}' closes nothing", op));
      brackets->pop_back();
    }
    return OkStatus();
  }

  Status Name() {
    size_t end = at;
    while (end < source.size() && IsNameByte(source[end])) ++end;
    Add(TokenKind::kName, source.substr(at, end - at), at);
    at = end;
    return OkStatus();
  }

  // 12, 1_000, 1.5, 2e3, 1.5e-3. A digit must follow the point: 1.x is an attribute.
  Status Number() {
    const size_t begin = at;
    const auto digits = [&] {
      while (at < source.size() && (IsDigit(source[at]) || source[at] == '_')) ++at;
    };
    const auto digit_at = [&](size_t i) { return i < source.size() && IsDigit(source[i]); };
    digits();
    bool real = false;
    if (Looks(".") && digit_at(at + 1)) {
      real = true;
      ++at;
      digits();
    }
    if (Looks("e") || Looks("E")) {
      const bool sign = at + 1 < source.size() && (source[at + 1] == '-' || source[at + 1] == '+');
      if (digit_at(at + 1 + (sign ? 1 : 0))) {
        real = true;
        at += sign ? 2 : 1;
        digits();
      }
    }
    if (at < source.size() && IsNameByte(source[at]))
      return Fail(Errc::kUnsupported, begin, "a number that is not decimal");
    std::string text(source.substr(begin, at - begin));
    std::erase(text, '_');
    Add(real ? TokenKind::kFloat : TokenKind::kInteger, text, begin);
    return OkStatus();
  }

  Status String(char quote) {
    const size_t begin = at++;
    std::string value;
    while (at < source.size() && source[at] != quote) {
      if (source[at] == '\\')
        NXDKIT_TRY(EscapeIn(&value));
      else
        value += source[at++];
    }
    if (at >= source.size()) return Fail(Errc::kCorrupt, begin, "a string that does not end");
    ++at;
    Add(TokenKind::kString, value, begin);
    return OkStatus();
  }

  // The escapes of a Python string; a backslash before anything else stands for itself.
  Status EscapeIn(std::string* value) {
    constexpr std::string_view kLetters = "\\'\"abfnrtv", kValues = "\\'\"\a\b\f\n\r\t\v";
    const char c = at + 1 < source.size() ? source[at + 1] : '\0';
    const size_t found = c == '\0' ? std::string_view::npos : kLetters.find(c);
    if (found != std::string_view::npos) {
      *value += kValues[found];
      at += 2;
    } else if (c == '\n') {
      at += 2;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const std::optional<uint32_t> point = Hexadecimal(source, at + 2, digits);
      if (!point || *point > 0x10ffff || (*point >= 0xd800 && *point < 0xe000))
        return Fail(Errc::kCorrupt, at, "an escape that is not a character");
      AppendUtf8(*point, value);
      at += 2 + digits;
    } else if (IsDigit(c) || c == 'N') {
      return Fail(Errc::kUnsupported, at, fmt::format("escape '\\{}'", c));
    } else {
      *value += source[at++];
    }
    return OkStatus();
  }
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source, Spaces spaces) {
  return Lexer{source, spaces}.Run();
}

std::string NormalizeNewlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    const bool pair = source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n';
    if (!pair) text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Error ErrorAt(Errc code, std::string_view source, size_t offset, std::string_view what) {
  const std::string_view before = source.substr(0, offset);
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t column = 1 + CountChars(before.substr(before.rfind('\n') + 1));
  return Error(code, fmt::format("line {} column {}: {}", line, column, what)).at(offset);
}

}  // namespace nxdkit::trainer::jinja
