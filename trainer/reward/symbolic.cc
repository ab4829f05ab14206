#include "trainer/reward/symbolic.h"

#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/base/rng.h"
#include "trainer/reward/expression.h"

namespace nxdkit::trainer {
namespace {

using Int128 = __int128;

// Evaluates the steps of an expression over the values of `Field`, which has Number, Letter, Pi,
// and the operations; each returns nullopt if there is no value.
template <typename Field, typename Value = typename Field::Value>
std::optional<Value> Evaluate(const Expression& expression, const Field& field) {
  std::vector<Value> stack;
  const auto pop = [&] {
    Value value = stack.back();
    stack.pop_back();
    return value;
  };
  for (const ExpressionStep& step : expression.steps) {
    std::optional<Value> result;
    switch (step.op) {
      case ExpressionOp::kNumber:
        result = field.Number(expression.numbers[static_cast<size_t>(step.value)]);
        break;
      case ExpressionOp::kLetter:
        result = field.Letter(step.value);
        break;
      case ExpressionOp::kPi:
        result = field.Pi();
        break;
      case ExpressionOp::kNegate:
        result = field.Negate(pop());
        break;
      case ExpressionOp::kPowerInt:
        result = field.PowerInt(pop(), step.value);
        break;
      case ExpressionOp::kSqrt:
        result = field.Sqrt(pop());
        break;
      case ExpressionOp::kLn:
        result = field.Ln(pop());
        break;
      case ExpressionOp::kAdd:
      case ExpressionOp::kSubtract:
      case ExpressionOp::kMultiply:
      case ExpressionOp::kDivide:
      case ExpressionOp::kPower: {
        const Value right = pop();
        const Value left = pop();
        result = field.Combine(step.op, left, right);
        break;
      }
    }
    if (!result) return std::nullopt;
    stack.push_back(*result);
  }
  return stack.back();
}

constexpr PhiloxKey kPoints = {0x6e78646b, 0x6d617468};

PhiloxCounter RandomWords(int64_t letter, uint32_t point) {
  return Philox({static_cast<uint32_t>(letter), point, 0, 0}, kPoints);
}

// The operations that only the complex numbers have.
template <typename V>
struct WithoutRoots {
  static std::optional<V> Pi() { return std::nullopt; }
  static std::optional<V> Sqrt(const V&) { return std::nullopt; }
  static std::optional<V> Ln(const V&) { return std::nullopt; }
};

// Integers modulo a prime; letters have random values.
class PrimeField : public WithoutRoots<uint64_t> {
 public:
  using Value = uint64_t;
  PrimeField(uint64_t prime, uint32_t point) : prime_(prime), point_(point) {}

  std::optional<Value> Number(const ExpressionNumber& number) const {
    Value value = 0;
    for (const char digit : number.digits)
      value = (Times(value, 10) + static_cast<Value>(digit - '0')) % prime_;
    const std::optional<Value> power = PowerInt(10, number.exponent);
    return power ? std::optional(Times(value, *power)) : std::nullopt;
  }
  std::optional<Value> Letter(int64_t letter) const {
    const PhiloxCounter words = RandomWords(letter, point_);
    return (uint64_t{words[0]} << 32 | words[1]) % prime_;
  }
  std::optional<Value> Negate(Value a) const { return a == 0 ? 0 : prime_ - a; }
  std::optional<Value> PowerInt(Value base, int64_t power) const {
    if (power < 0) {
      if (base == 0) return std::nullopt;
      base = Raise(base, prime_ - 2);
    }
    return Raise(base, static_cast<uint64_t>(std::abs(power)));
  }
  std::optional<Value> Combine(ExpressionOp op, Value a, Value b) const {
    switch (op) {
      case ExpressionOp::kAdd:
        return (a + b) % prime_;
      case ExpressionOp::kSubtract:
        return (a + (prime_ - b)) % prime_;
      case ExpressionOp::kMultiply:
        return Times(a, b);
      case ExpressionOp::kDivide:
        if (b == 0) return std::nullopt;
        return Times(a, Raise(b, prime_ - 2));
      default:
        return std::nullopt;
    }
  }

 private:
  Value Times(Value a, Value b) const {
    return static_cast<Value>(static_cast<unsigned __int128>(a) * b % prime_);
  }
  Value Raise(Value base, uint64_t power) const {
    Value result = 1;
    for (; power > 0; power >>= 1) {
      if ((power & 1) != 0) result = Times(result, base);
      base = Times(base, base);
    }
    return result;
  }

  uint64_t prime_;
  uint32_t point_;
};

// A fraction, or an f64 after an operation with a decimal or on large numbers.
struct Real {
  bool exact = true;
  Int128 over = 0;
  Int128 under = 1;
  double value = 0;
};

Real Inexact(double value) { return {.exact = false, .value = value}; }

double AsDouble(const Real& a) {
  return a.exact ? static_cast<double>(a.over) / static_cast<double>(a.under) : a.value;
}

Int128 Gcd(Int128 a, Int128 b) {
  while (b != 0) a = std::exchange(b, a % b);
  return a < 0 ? -a : a;
}

std::optional<Real> Fraction(Int128 over, Int128 under) {
  constexpr Int128 kLeast = static_cast<Int128>(1) << 127;
  if (over == kLeast || under == kLeast) return std::nullopt;  // has no negative
  const Int128 divisor = under < 0 ? -Gcd(over, under) : Gcd(over, under);
  return Real{.over = over / divisor, .under = under / divisor};
}

class Reals : public WithoutRoots<Real> {
 public:
  using Value = Real;

  std::optional<Real> Number(const ExpressionNumber& number) const {
    constexpr size_t kExactInF64 = 15;  // digits; longer numbers are taken as written
    if (number.decimal && number.digits.size() <= kExactInF64) return Inexact(number.value);
    Int128 over = 0;
    Int128 under = 1;
    bool fits = number.exponent <= 0;
    for (const char digit : number.digits)
      fits = fits && !__builtin_mul_overflow(over, 10, &over) &&
             !__builtin_add_overflow(over, digit - '0', &over);
    for (int64_t i = number.exponent; i < 0 && fits; ++i)
      fits = !__builtin_mul_overflow(under, 10, &under);
    return fits ? Fraction(over, under) : Inexact(number.value);
  }
  std::optional<Real> Letter(int64_t) const { return std::nullopt; }
  std::optional<Real> Negate(const Real& a) const {
    return Combine(ExpressionOp::kSubtract, Real{}, a);
  }
  std::optional<Real> PowerInt(const Real& base, int64_t power) const {
    if (!base.exact) return Inexact(std::pow(base.value, static_cast<double>(power)));
    Real result = {.over = 1};
    for (int64_t i = 0; i < std::abs(power); ++i) {
      const std::optional<Real> next = Combine(ExpressionOp::kMultiply, result, base);
      if (!next) return std::nullopt;
      result = *next;
    }
    return power < 0 ? Combine(ExpressionOp::kDivide, Real{.over = 1}, result) : result;
  }
  std::optional<Real> Combine(ExpressionOp op, const Real& a, const Real& b) const {
    if (op == ExpressionOp::kPower) return std::nullopt;
    const bool divide = op == ExpressionOp::kDivide;
    if (divide && AsDouble(b) == 0) return std::nullopt;
    if (a.exact && b.exact) {
      const std::optional<Real> exact = divide ? Product(a, {.over = b.under, .under = b.over})
                                        : op == ExpressionOp::kMultiply
                                            ? Product(a, b)
                                            : Sum(a, b, op == ExpressionOp::kSubtract);
      if (exact) return exact;
    }
    const double x = AsDouble(a);
    const double y = AsDouble(b);
    switch (op) {
      case ExpressionOp::kAdd:
        return Inexact(x + y);
      case ExpressionOp::kSubtract:
        return Inexact(x - y);
      case ExpressionOp::kMultiply:
        return Inexact(x * y);
      default:
        return Inexact(x / y);
    }
  }

 private:
  static std::optional<Real> Product(const Real& a, const Real& b) {
    Int128 over, under;
    if (__builtin_mul_overflow(a.over, b.over, &over) ||
        __builtin_mul_overflow(a.under, b.under, &under))
      return std::nullopt;
    return Fraction(over, under);
  }
  static std::optional<Real> Sum(const Real& a, const Real& b, bool subtract) {
    Int128 left, right, over, under;
    if (__builtin_mul_overflow(a.over, b.under, &left) ||
        __builtin_mul_overflow(b.over, a.under, &right) ||
        __builtin_mul_overflow(a.under, b.under, &under) ||
        (subtract ? __builtin_sub_overflow(left, right, &over)
                  : __builtin_add_overflow(left, right, &over)))
      return std::nullopt;
    return Fraction(over, under);
  }
};

// A complex number, and the size of the terms that it is the sum of, for the possible rounding
// error.
struct Approximate {
  std::complex<long double> value;
  long double size = 0;
};

class ComplexField {
 public:
  using Value = Approximate;
  explicit ComplexField(uint32_t point) : point_(point) {}

  std::optional<Value> Number(const ExpressionNumber& number) const {
    return Checked({number.value, std::abs(number.value)});
  }
  // In all four quadrants, so that sqrt(x^2) differs from x.
  std::optional<Value> Letter(int64_t letter) const {
    const PhiloxCounter words = RandomWords(letter, point_);
    const auto part = [&](size_t i, uint32_t sign) {
      const double size = 0.5 + 1.5 * UniformDouble(words[i], words[i + 1]);
      return (point_ & sign) != 0 ? -size : size;
    };
    const std::complex<long double> value(part(0, 1), part(2, 2));
    return Value{value, std::abs(value)};
  }
  std::optional<Value> Pi() const {
    return Value{std::numbers::pi_v<long double>, std::numbers::pi_v<long double>};
  }
  std::optional<Value> Negate(const Value& a) const { return Value{-a.value, a.size}; }
  std::optional<Value> PowerInt(const Value& a, int64_t power) const {
    return Raise(a, {static_cast<long double>(power), 0});
  }
  std::optional<Value> Sqrt(const Value& a) const {
    if (std::abs(a.value) == 0) return Value{0, std::sqrt(a.size)};
    return Scaled(std::sqrt(a.value), a);
  }
  std::optional<Value> Ln(const Value& a) const {
    const std::complex<long double> value = std::log(a.value);
    return Checked({value, std::abs(value) + a.size / std::abs(a.value)});
  }
  std::optional<Value> Combine(ExpressionOp op, const Value& a, const Value& b) const {
    switch (op) {
      case ExpressionOp::kAdd:
        return Checked({a.value + b.value, a.size + b.size});
      case ExpressionOp::kSubtract:
        return Checked({a.value - b.value, a.size + b.size});
      case ExpressionOp::kMultiply:
        return Checked({a.value * b.value, a.size * b.size});
      case ExpressionOp::kDivide: {
        const long double size = std::abs(b.value);
        return Checked({a.value / b.value, a.size / size * (b.size / size)});
      }
      default:
        return Raise(a, b);
    }
  }

 private:
  static std::optional<Value> Checked(const Value& a) {
    if (std::isfinite(a.value.real()) && std::isfinite(a.value.imag()) && std::isfinite(a.size))
      return a;
    return std::nullopt;
  }
  // The value, with about the relative error of `a`.
  static std::optional<Value> Scaled(const std::complex<long double>& value, const Value& a) {
    return Checked({value, std::abs(value) * a.size / std::abs(a.value)});
  }
  static std::optional<Value> Raise(const Value& a, const Value& power) {
    if (std::abs(a.value) == 0) {
      if (power.value.real() > 0) return Value{0, a.size};
      return std::nullopt;
    }
    const std::optional<Value> raised = Scaled(std::pow(a.value, power.value), a);
    if (!raised) return std::nullopt;
    return Checked({raised->value, raised->size * (1 + std::abs(power.value))});
  }

  uint32_t point_;
};

// The largest primes below 2^61 and 2^59: a difference is not a multiple of both by chance.
constexpr uint64_t kPrimes[] = {(uint64_t{1} << 61) - 1, (uint64_t{1} << 59) - 55};

// False also if either has no value.
template <typename Field, typename Same>
bool AreEqualIn(const Field& field, const Expression& a, const Expression& b, const Same& same) {
  const auto left = Evaluate(a, field);
  const auto right = Evaluate(b, field);
  return left && right && same(*left, *right);
}

bool EqualInPrimeFields(const Expression& a, const Expression& b) {
  for (const uint64_t prime : kPrimes)
    for (uint32_t point = 0; point < 2; ++point)
      if (!AreEqualIn(PrimeField(prime, point), a, b, std::equal_to<>())) return false;
  return true;
}

bool EqualReals(const Expression& a, const Expression& b) {
  const Reals field;
  return AreEqualIn(field, a, b, [&](const Real& left, const Real& right) {
    const auto difference = field.Combine(ExpressionOp::kSubtract, left, right);
    return difference && (difference->exact ? difference->over == 0 : difference->value == 0);
  });
}

bool EqualComplex(const Expression& a, const Expression& b) {
  constexpr long double kTolerance = 1e-13L;
  const uint32_t points = a.has_letters || b.has_letters ? 8 : 1;
  const auto same = [](const Approximate& left, const Approximate& right) {
    return std::abs(left.value - right.value) <= kTolerance * (left.size + right.size);
  };
  for (uint32_t point = 0; point < points; ++point)
    if (!AreEqualIn(ComplexField(point), a, b, same)) return false;
  return true;
}

}  // namespace

bool AreEqualExpressions(std::string_view a, std::string_view b) {
  const std::optional<Expression> left = ParseExpression(a);
  if (!left) return false;
  const std::optional<Expression> right = ParseExpression(b);
  if (!right) return false;
  if (!left->is_rational || !right->is_rational) return EqualComplex(*left, *right);
  const bool letters = left->has_letters || right->has_letters;
  const bool decimals = left->has_decimals || right->has_decimals;
  return decimals && !letters ? EqualReals(*left, *right) : EqualInPrimeFields(*left, *right);
}

}  // namespace nxdkit::trainer
