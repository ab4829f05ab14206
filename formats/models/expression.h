// PRIVATE to formats/models: the expressions of a family's table, over the keys of a config.json,
// the table's own names and the counters of its loops.
//
// A ?? B      A, or B where a key of A is missing or null
// X if C else Y    or and not    == != < <= > >= in not in ends    + - * / % **
// len(X)      the number of elements in X
// agree(A, B) the one that exists; if both do, they must be the same
// name, a.b.c, list[i], 12, "text", true, false, []
//
// Numbers are integers of 64 bits, checked; / must not leave a remainder; true is 1. After ==, !=,
// in and ends a word that the table does not define is a text: layer_types[l] == full_attention.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/json/json.h"

namespace nxdkit::models {

// The required type and bounds of a key of config.json.
struct Expected {
  enum class Type : uint8_t { kAny, kInteger, kFlag } type = Type::kAny;
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();

  bool operator==(const Expected&) const = default;
};

// A name in an expression, by its number.
struct Symbol {
  enum class Kind : uint8_t { kKey, kLet, kCounter } kind = Kind::kKey;
  std::string name;  // kKey: its path, with dots
  Expected expected;
  std::string origin;  // the key that a let is derived from, for messages
};

enum class Code : uint8_t {
  // No operand: pushes what Operation::number says.
  kNumber,
  kText,
  kList,
  kSymbol,
  // One operand, which the result replaces.
  kLength,
  kNot,
  // Two operands, which the result replaces.
  kIndex,
  kAgree,
  kElse,
  kIf,  // X if C: nothing where C is false
  kOtherwise,
  kOr,
  kAnd,
  kEqual,
  kUnequal,
  kLess,
  kLessEqual,
  kMore,
  kMoreEqual,
  kIn,
  kNotIn,
  kEnds,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kRemainder,
  kPower,
};

// One step of a machine with a stack.
struct Operation {
  Code code;
  int64_t number = 0;  // kNumber: itself; kText, kList, kSymbol: its index
};

struct Expression {
  std::vector<Operation> operations;
  std::vector<std::string> texts;
  std::vector<Json> lists;
  std::string source;  // as written in the table

  // The symbol, if the expression consists of one only; otherwise -1.
  int64_t OnlySymbol() const;
};

// The names that are defined at the place of an expression. Keys are added when first used.
class Scope {
 public:
  // The newest symbol of this name: the table's, or a key that is read as `expected`.
  uint32_t Find(std::string_view name, const Expected& expected);
  bool Defines(std::string_view name) const;  // a let, or a counter whose loop is open
  uint32_t Add(Symbol::Kind kind, std::string name);
  void Close(uint32_t counter);  // ends its loop
  void ComesFrom(uint32_t let, const Expression& expression);

  const std::vector<Symbol>& symbols() const { return symbols_; }

 private:
  std::vector<Symbol> symbols_;
  std::vector<uint32_t> open_;  // lets and counters, in order of definition
};

// kCorrupt, with the offset of the fault in `text`.
Result<Expression> ParseExpression(std::string_view text, Scope& scope, const Expected& expected);

struct Value {
  enum class Kind : uint8_t { kNothing, kMissing, kFault, kNumber, kText, kList };
  Kind kind = Kind::kNothing;
  int64_t number = 0;  // kMissing: the symbol of the key; kFault: the index of the fault
  std::string_view text;
  const Json* list = nullptr;
  bool flag = false;  // true or false of a config: a number in arithmetic, but not an extent

  static Value Of(int64_t number) { return {Kind::kNumber, number, {}, nullptr, false}; }
  bool is_number() const { return kind == Kind::kNumber; }
};

// Evaluates the expressions of one table with one config.json; the symbols, the expressions and the
// config must outlive it.
class Evaluator {
 public:
  Evaluator(const std::vector<Symbol>& symbols, const Json& config);  // Reads the keys.

  void Set(uint32_t symbol, const Value& value) { values_[symbol] = value; }
  const Value& At(uint32_t symbol) const { return values_[symbol]; }

  Value Run(const Expression& expression);
  // kCorrupt, with the key as its member, when it is missing, faulty or not an integer.
  Result<int64_t> Number(const Expression& expression);
  // Why a value is not a number.
  Error Why(const Value& value, const Expression& expression) const;

 private:
  struct Fault {
    std::string member;
    std::string text;
  };

  Value Steps(const Expression& expression);
  Value Faulty(std::string member, std::string text);
  Value Read(const Symbol& symbol, uint32_t number, const Json& config);
  Value FromJson(const Json& json);
  Value Push(const Expression& expression, const Operation& operation);
  Value Unary(Code code, const Value& a, const Expression& expression);
  Value Binary(const Expression& expression, size_t step, const Value& a, const Value& b);
  Value Disagreement(const Expression& expression, size_t step, const Value& a, const Value& b);
  Value Arithmetic(const Expression& expression, size_t step, int64_t a, int64_t b);
  Value NotWhole(const Expression& expression, size_t step, int64_t a, int64_t b);
  // Whether all comparisons including this one stay within the bound.
  bool Affords(uint64_t elements);
  Value LooksAtTooMuch();
  Value Compare(Code code, const Value& a, const Value& b);
  Value Within(const Value& a, const Json& list, const std::string& key);

  const std::vector<Symbol>& symbols_;
  std::vector<Value> values_;
  std::vector<Fault> faults_;
  std::vector<Value> stack_;
  uint64_t looked_ = 0;  // elements of lists, and 64 bytes of texts
};

}  // namespace nxdkit::models
