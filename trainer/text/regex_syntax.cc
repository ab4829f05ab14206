#include "trainer/text/regex_syntax.h"

#include <fmt/core.h>

#include <cctype>

#include "lib/base/text.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
// Outside of a class, Oniguruma's \w also matches these of Latin-1 (checked with 6.9, for all
// points).
constexpr std::string_view kWordAlone = "\\xb2\\xb3\\xb9\\xbc-\\xbe";
constexpr std::string_view kGroups[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};

struct Escape {
  char letter;
  std::string_view pcre;
};
constexpr Escape kEscapes[] = {
    {'s', "\\p{White_Space}"},
    {'S', "\\P{White_Space}"},
    {'d', "\\p{Nd}"},
    {'D', "\\P{Nd}"},
    {'n', "\\n"},
    {'r', "\\r"},
    {'t', "\\t"},
    {'f', "\\f"},
    {'v', "\\x0b"},
};

bool IsHex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> Run() {
    while (at_ < pattern_.size()) NXDKIT_TRY(Step());
    if (in_class_) return Refuse("a character class that does not end", pattern_.size());
    return std::move(out_);
  }

 private:
  Error Refuse(std::string_view what, size_t at) const {
    return Unsupported("regular expression: {} at character {} of '{}'", what, at + 1, pattern_);
  }
  char Peek(size_t ahead) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  void Copy(size_t bytes) {
    out_.append(pattern_.substr(at_, bytes));
    at_ += bytes;
  }

  Status Step() {
    const char c = pattern_[at_];
    if (c == '\0') return Refuse("a NUL", at_);
    if (c == '\\') return EscapeSequence();
    if (in_class_) return InClass(c);
    if (c == '[') return OpenClass();
    if (c == '(') return Group();
    if (c == '{') return Interval();
    if (c == '^' || c == '$') return Refuse("a line anchor", at_);
    Copy(1);
    return OkStatus();
  }

  Status OpenClass() {
    Copy(1);
    if (Peek(0) == '^') Copy(1);
    if (Peek(0) == ']') return Refuse("an empty character class", at_);
    in_class_ = true;
    return OkStatus();
  }
  Status InClass(char c) {
    if (c == '[') return Refuse("a class inside a class", at_);
    if (c == '&' && Peek(1) == '&') return Refuse("an intersection of classes", at_);
    if (c == ']') in_class_ = false;
    Copy(1);
    return OkStatus();
  }

  Status Group() {
    if (Peek(1) == '*') return Refuse("a group that begins with '*'", at_);
    if (Peek(1) != '?') {
      Copy(1);
      return OkStatus();
    }
    for (const std::string_view group : kGroups) {
      if (pattern_.substr(at_, group.size()) != group) continue;
      Copy(group.size());
      return OkStatus();
    }
    return Refuse(fmt::format("group '{}'", pattern_.substr(at_, 4)), at_);
  }

  // {3} {1,3} {2,}
  Status Interval() {
    size_t length = 1;
    while (IsDigit(Peek(length))) ++length;
    if (length == 1) return Refuse("'{' that does not begin a count", at_);
    if (Peek(length) == ',') ++length;
    while (IsDigit(Peek(length))) ++length;
    if (Peek(length) != '}') return Refuse("'{' that does not begin a count", at_);
    if (Peek(length + 1) == '+') return Refuse("'+' after a count", at_ + length + 1);
    Copy(length + 1);
    return OkStatus();
  }

  Status EscapeSequence() {
    const char c = Peek(1);
    if (c == 'p' || c == 'P') return Property();
    if (c == 'x' || c == 'u') return Hexadecimal(c == 'u');
    if (c == 'w' || (c == 'W' && !in_class_)) return Word(c == 'W');
    for (const Escape& row : kEscapes) {
      if (row.letter != c) continue;
      out_ += row.pcre;
      at_ += 2;
      return OkStatus();
    }
    if (c == '\0' || IsAlnum(c) || static_cast<unsigned char>(c) >= 0x80)
      return Refuse(fmt::format("escape '{}'", pattern_.substr(at_, c == '\0' ? 1 : 2)), at_);
    Copy(2);
    return OkStatus();
  }

  Status Word(bool negated) {
    if (in_class_)
      out_ += kWord;
    else
      out_ += fmt::format("[{}{}{}]", negated ? "^" : "", kWord, kWordAlone);
    at_ += 2;
    return OkStatus();
  }

  // A general category, or a script.
  Status Property() {
    const size_t end = pattern_.find('}', at_);
    if (Peek(2) != '{' || end == std::string_view::npos)
      return Refuse("a property without braces", at_);
    const std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    for (const char c : name)
      if (!IsAlnum(c) && c != '_') return Refuse(fmt::format("property '{}'", name), at_);
    out_ += fmt::format("\\{}{{{}{}}}", pattern_[at_ + 1], name.size() > 2 ? "sc:" : "", name);
    at_ = end + 1;
    return OkStatus();
  }

  // \x41, \x{10ffff}, \u00e9
  Status Hexadecimal(bool four) {
    const bool braces = !four && Peek(2) == '{';
    const size_t begin = at_ + (braces ? 3 : 2);
    const size_t most = braces ? 6 : four ? 4 : 2;
    size_t digits = 0;
    while (digits < most && begin + digits < pattern_.size() && IsHex(pattern_[begin + digits]))
      ++digits;
    const size_t end = begin + digits + (braces ? 1 : 0);
    const bool whole =
        braces ? digits > 0 && end <= pattern_.size() && pattern_[end - 1] == '}' : digits == most;
    // In Oniguruma, \xHH above 7f is a byte of the encoding.
    const bool byte = !braces && !four && whole && pattern_[begin] > '7';
    if (!whole || byte) return Refuse("a number of a character", at_);
    out_ += fmt::format("\\x{{{}}}", pattern_.substr(begin, digits));
    at_ = end;
    return OkStatus();
  }

  std::string_view pattern_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

Result<std::string> TranslateOniguruma(std::string_view pattern) {
  return Translator(pattern).Run();
}

std::string EscapeRegex(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const bool plain = IsAlnum(c) || static_cast<unsigned char>(c) >= 0x80 || c == '\n';
    if (!plain) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace nxdkit::trainer
