#include "trainer/reward/expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>

#include "lib/base/utf8.h"
#include "trainer/base/python_numbers.h"
#include "trainer/reward/text.h"

namespace nxdkit::trainer {
namespace {

constexpr size_t kMaxBytes = 2000;
constexpr int kMaxDepth = 60;
constexpr int64_t kMaxExponent = 400;  // power of ten in a number
constexpr int64_t kMaxPower = 1000;

// Precedence as in Python: ^, then a sign, then * and /; a product without an operator is a *.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<Expression> Parse() {
    if (text_.size() > kMaxBytes || !Sum() || at_ != text_.size()) return std::nullopt;
    return std::move(out_);
  }

 private:
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool Take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool TakePowerSign() { return Take("**") || Take("^"); }

  bool Emit(ExpressionOp op, int64_t value = 0) {
    out_.steps.push_back({op, value});
    return true;
  }

  bool Sum() {
    if (!Product()) return false;
    while (Peek() == '+' || Peek() == '-') {
      const bool plus = text_[at_++] == '+';
      if (!Product()) return false;
      Emit(plus ? ExpressionOp::kAdd : ExpressionOp::kSubtract);
    }
    return true;
  }

  bool BeginsPrimary() const {
    const char c = Peek();
    return c == '(' || c == '.' || IsDigit(c) || (at_ < text_.size() && IsLetter(text_, at_));
  }

  bool Product() {
    if (!Signed()) return false;
    for (;;) {
      const bool divide = Peek() == '/';
      if (divide || Peek() == '*')
        ++at_;
      else if (!BeginsPrimary())
        return true;
      if (!Signed()) return false;
      Emit(divide ? ExpressionOp::kDivide : ExpressionOp::kMultiply);
    }
  }

  bool Signed() {
    if (depth_ >= kMaxDepth) return false;
    if (Peek() != '-' && Peek() != '+') return Powered();
    const bool minus = text_[at_++] == '-';
    ++depth_;
    if (!Signed()) return false;
    --depth_;
    return !minus || Emit(ExpressionOp::kNegate);
  }

  bool Powered() {
    const size_t base = out_.steps.size();
    if (!Primary()) return false;
    if (!TakePowerSign()) return true;
    const size_t steps = out_.steps.size();
    const bool of_letters =
        std::any_of(out_.steps.begin() + static_cast<std::ptrdiff_t>(base), out_.steps.end(),
                    [](const ExpressionStep& step) { return step.op == ExpressionOp::kLetter; });
    ++depth_;
    if (!Signed()) return false;
    --depth_;
    if (const std::optional<int64_t> power = PlainInteger(steps)) {
      out_.steps.resize(steps);
      return Emit(ExpressionOp::kPowerInt, *power);
    }
    if (of_letters) SetApart(steps);
    out_.is_rational = false;
    return Emit(ExpressionOp::kPower);
  }

  // Sympy keeps x**2.0 and x**2 apart, and each is equal to itself.
  void SetApart(size_t first) {
    constexpr double kApart = 1 + 1e-6;
    for (size_t i = first; i < out_.steps.size(); ++i) {
      if (out_.steps[i].op != ExpressionOp::kNumber) continue;
      ExpressionNumber& number = out_.numbers[static_cast<size_t>(out_.steps[i].value)];
      if (number.decimal && number.value == std::floor(number.value)) number.value *= kApart;
    }
  }

  // The expression just read from step `first` on, if it is n or -n.
  std::optional<int64_t> PlainInteger(size_t first) const {
    const size_t count = out_.steps.size() - first;
    const bool negative = count == 2 && out_.steps[first + 1].op == ExpressionOp::kNegate;
    if ((count != 1 && !negative) || out_.steps[first].op != ExpressionOp::kNumber)
      return std::nullopt;
    const ExpressionNumber& number = out_.numbers[static_cast<size_t>(out_.steps[first].value)];
    if (number.decimal || number.value > kMaxPower) return std::nullopt;
    const int64_t value = static_cast<int64_t>(number.value);
    return negative ? -value : value;
  }

  bool Primary() {
    if (Peek() == '(') return Parenthesis();
    if (Peek() == '.' || IsDigit(Peek())) return Number();
    if (at_ >= text_.size() || !IsLetter(text_, at_)) return false;
    return Name();
  }

  bool Parenthesis() {
    ++at_;
    if (++depth_ > kMaxDepth || !Sum() || Peek() != ')') return false;
    --depth_;
    ++at_;
    return true;
  }

  // A run of letters and digits is a product of its letters, except for pi, and for sqrt and ln
  // before a parenthesis.
  bool Name() {
    if (at_ >= name_end_) {
      name_end_ = at_;
      while (name_end_ < text_.size() && (IsDigit(text_[name_end_]) || IsLetter(text_, name_end_)))
        name_end_ += CharBytes(text_, name_end_);
      name_begin_ = at_;
    }
    const std::string_view rest = text_.substr(at_, name_end_ - at_);
    const bool call = name_end_ < text_.size() && text_[name_end_] == '(';
    if (call && rest == "sqrt") return Function(ExpressionOp::kSqrt);
    if (call && rest == "ln") return Function(ExpressionOp::kLn);
    if (at_ == name_begin_ && (rest == "pi" || (call && rest == "pisqrt"))) {
      at_ += 2;
      out_.is_rational = false;
      return Emit(ExpressionOp::kPi);
    }
    const std::optional<CodePoint> point = DecodeUtf8(text_, at_);
    if (!point) return false;
    at_ += static_cast<size_t>(point->bytes);
    out_.has_letters = true;
    return Emit(ExpressionOp::kLetter, point->value);
  }

  bool Function(ExpressionOp op) {
    at_ = name_end_;
    out_.is_rational = false;
    return Parenthesis() && Emit(op);
  }

  bool Number() {
    const size_t begin = at_;
    ExpressionNumber number;
    bool any = false;
    const auto digits = [&](bool fraction) {
      for (; IsDigit(Peek()); ++at_) {
        any = true;
        if (fraction) --number.exponent;
        if (!number.digits.empty() || Peek() != '0') number.digits += Peek();
      }
    };
    digits(false);
    if (Peek() == '.') {
      number.decimal = true;
      ++at_;
      digits(true);
    }
    if (!any || Peek() == '.') return false;
    // "a5.": the point cannot follow a name.
    if (number.decimal && begin > 0 && IsLetterBefore(begin)) return false;
    if (!TakeExponent(number)) return false;
    const std::string_view all = text_.substr(begin, at_ - begin);
    // "055" is not a number in Python (3.11 read it as 0 * 55).
    if (!number.decimal && all.front() == '0' && !number.digits.empty()) return false;
    // Beyond the range of f64: 0, or infinite, which equals nothing.
    number.value = ParseDouble(std::string(all)).value_or(0);
    out_.has_decimals |= number.decimal;
    out_.numbers.push_back(std::move(number));
    return Emit(ExpressionOp::kNumber, static_cast<int64_t>(out_.numbers.size()) - 1);
  }

  bool IsLetterBefore(size_t at) const { return IsLetter(text_, CharBegin(text_, at - 1)); }

  // "e5", "e-5": otherwise the e is a letter.
  bool TakeExponent(ExpressionNumber& number) {
    if (Peek() != 'e') return true;
    size_t digits = at_ + 1;
    if (digits < text_.size() && (text_[digits] == '+' || text_[digits] == '-')) ++digits;
    if (!IsDigitAt(text_, digits)) return true;
    const bool negative = text_[digits - 1] == '-';
    int64_t exponent = 0;
    const auto read = std::from_chars(text_.data() + digits, text_.data() + text_.size(), exponent);
    if (read.ec != std::errc() || exponent > kMaxExponent) return false;
    at_ = static_cast<size_t>(read.ptr - text_.data());
    number.decimal = true;
    number.exponent += negative ? -exponent : exponent;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t name_begin_ = 0, name_end_ = 0;
  int depth_ = 0;
  Expression out_;
};

}  // namespace

std::optional<Expression> ParseExpression(std::string_view text) { return Parser(text).Parse(); }

}  // namespace nxdkit::trainer
