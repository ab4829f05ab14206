// PRIVATE to trainer/reward. An expression as a program for a stack machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nxdkit::trainer {

enum class ExpressionOp {
  kNumber,  // push numbers[value]
  kLetter,  // push the letter with code point `value`
  kPi,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kNegate,
  kPowerInt,  // top ^ value
  kPower,
  kSqrt,
  kLn,
};

struct ExpressionStep {
  ExpressionOp op;
  int64_t value = 0;
};

// digits * 10^exponent; decimal when written with a point or an exponent.
struct ExpressionNumber {
  std::string digits;  // without leading zeros; "" is zero
  int64_t exponent = 0;
  bool decimal = false;
  double value = 0;
};

struct Expression {
  std::vector<ExpressionStep> steps;
  std::vector<ExpressionNumber> numbers;
  bool has_letters = false;
  bool has_decimals = false;
  bool is_rational = true;  // no pi, root, logarithm, or power that is not a plain integer
};

// nullopt for text that is not such an expression, is nested deeper than 60, or is too long.
std::optional<Expression> ParseExpression(std::string_view text);

}  // namespace nxdkit::trainer
