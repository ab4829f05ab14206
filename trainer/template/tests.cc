#include "trainer/template/tests.h"

#include <algorithm>

#include "lib/base/errors.h"
#include "trainer/template/operators.h"
#include "trainer/template/print.h"
#include "trainer/template/python_case.h"

namespace nxdkit::trainer::jinja {
namespace {

using Plain = bool (*)(const Value& value);

// str(value).islower() and .isupper(): all letters that have a case have this one.
Result<bool> HasCase(const Value& value, bool is_lower, Budget& budget) {
  NXDKIT_ASSIGN(const std::string text, ToText(value, budget));
  NXDKIT_TRY(budget.Charge(text.size() * 8));
  const std::string lower = PythonLower(text), upper = PythonUpper(text);
  return lower != upper && text == (is_lower ? lower : upper);
}

// It has a length, and elements by index or key.
bool IsSequence(const Value& value) {
  return value.text() != nullptr || (value.list() != nullptr && !value.is_view()) ||
         value.dict() != nullptr || value.undefined() != nullptr;
}
bool IsIterable(const Value& value) {
  return IsSequence(value) || value.list() != nullptr || value.iterator() != nullptr;
}

struct PlainRow {
  std::string_view name;
  Plain test;
};
constexpr PlainRow kPlain[] = {
    {"defined", [](const Value& value) { return value.undefined() == nullptr; }},
    {"undefined", [](const Value& value) { return value.undefined() != nullptr; }},
    {"none", [](const Value& value) { return value.is_none(); }},
    {"string", [](const Value& value) { return value.text() != nullptr; }},
    {"mapping", [](const Value& value) { return value.dict() != nullptr; }},
    {"sequence", IsSequence},
    {"iterable", IsIterable},
    {"number", [](const Value& value) { return value.number().has_value(); }},
    {"integer",
     [](const Value& value) { return value.integer().has_value() && value.boolean() == nullptr; }},
    {"float", [](const Value& value) { return value.is_float(); }},
    {"boolean", [](const Value& value) { return value.boolean() != nullptr; }},
    {"true", [](const Value& value) { return value.boolean() != nullptr && *value.boolean(); }},
    {"false", [](const Value& value) { return value.boolean() != nullptr && !*value.boolean(); }},
    {"callable",  // an undefined value reports itself only when it is called
     [](const Value& value) {
       return value.function() != nullptr || value.undefined() != nullptr;
     }},
};

// Tests that compare, with all their names.
struct CompareRow {
  std::string_view name;
  std::string_view op;
};
constexpr CompareRow kCompare[] = {
    {"==", "=="}, {"eq", "=="},         {"equalto", "=="}, {"!=", "!="}, {"ne", "!="}, {"<", "<"},
    {"lt", "<"},  {"lessthan", "<"},    {"<=", "<="},      {"le", "<="}, {">", ">"},   {"gt", ">"},
    {">=", ">="}, {"greaterthan", ">"}, {"ge", ">="},      {"in", "in"},
};

Result<bool> Divides(const Value& value, int64_t by, int64_t rest, Budget& budget) {
  NXDKIT_ASSIGN(const Value remainder, Binary("%", value, Value(by), budget));
  return Equal(remainder, Value(rest), budget);
}

}  // namespace

Result<bool> ApplyTest(std::string_view name, const Value& value, const Arguments& arguments,
                       Budget& budget) {
  NXDKIT_TRY(budget.Charge());
  const auto* plain = std::ranges::find(kPlain, name, &PlainRow::name);
  if (plain != std::end(kPlain)) {
    NXDKIT_TRY(arguments.Allow({}));
    return plain->test(value);
  }
  if (name == "lower" || name == "upper") {
    NXDKIT_TRY(arguments.Allow({}));
    return HasCase(value, name == "lower", budget);
  }
  if (name == "odd" || name == "even") return Divides(value, 2, name == "odd" ? 1 : 0, budget);
  NXDKIT_TRY(arguments.Allow({1}));
  const auto* compare = std::ranges::find(kCompare, name, &CompareRow::name);
  if (compare != std::end(kCompare) || name == "divisibleby") {
    if (arguments.values.empty()) return Corrupt("the test '{}' needs an argument", name);
    const Value& other = arguments.values[0];
    if (compare != std::end(kCompare)) return Compare(compare->op, value, other, budget);
    if (!other.integer()) return Corrupt("divisible by {}", TypeName(other));
    return Divides(value, *other.integer(), 0, budget);
  }
  return Unsupported("the test '{}' is not known", name);
}

}  // namespace nxdkit::trainer::jinja
