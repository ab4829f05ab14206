#include "trainer/template/operators.h"

#include <algorithm>
#include <cmath>

#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "trainer/base/characters.h"
#include "trainer/template/functions.h"
#include "trainer/template/print.h"
#include "trainer/template/python_text.h"

namespace nxdkit::trainer::jinja {
namespace {

constexpr size_t kBytesPerUnit = Budget::kBytesPerUnit;
constexpr size_t kMaxTextBytes = size_t{64} << 20;

Error TypeError(std::string_view op, const Value& a, const Value& b) {
  return Corrupt("'{}' between {} and {}", op, TypeName(a), TypeName(b));
}

Error Overflow(std::string_view op) {
  return OverLimit("the result of '{}' is beyond 64 bits", op);
}

Result<Value> Checked(std::string_view op, std::optional<int64_t> value) {
  if (!value) return Overflow(op);
  return Value(*value);
}

Result<Value> Integers(std::string_view op, int64_t a, int64_t b) {
  if (op == "+") return Checked(op, CheckedAdd(a, b));
  if (op == "*") return Checked(op, CheckedMul(a, b));
  if (op == "-") {
    int64_t out = 0;
    if (__builtin_sub_overflow(a, b, &out)) return Overflow(op);
    return Value(out);
  }
  if (b == 0) return Corrupt("division by zero");
  if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) return op == "%" ? Result<Value>(Value(int64_t{0})) : Integers("-", 0, a);
  // Python rounds down, C++ towards zero.
  const bool down = a % b != 0 && (a % b < 0) != (b < 0);
  if (op == "//") return Value(a / b - (down ? 1 : 0));
  return Value(a % b + (down ? b : 0));
}

Result<Value> Floats(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (b == 0) return Corrupt("division by zero");
  if (op == "/") return Value(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return op == "%" ? Value(rest) : Value(std::floor((a - rest) / b + 0.5));
}

Status CheckBytes(size_t bytes) {
  if (bytes <= kMaxTextBytes) return OkStatus();
  return OverLimit("a text of {} bytes is over the limit of {}", bytes, kMaxTextBytes);
}

Result<Value> Concatenate(const std::string& a, const std::string& b, Budget& budget) {
  NXDKIT_TRY(CheckBytes(a.size() + b.size()));
  NXDKIT_TRY(budget.Charge(a.size() + b.size()));
  return Value(a + b);
}

Result<Value> Repeat(const std::string& text, int64_t times, Budget& budget) {
  if (times <= 0 || text.empty()) return Value("");
  const auto bytes = CheckedMul(text.size(), static_cast<size_t>(times));
  NXDKIT_TRY(CheckBytes(bytes.value_or(SIZE_MAX)));
  NXDKIT_TRY(budget.Charge(*bytes));
  std::string all;
  all.reserve(*bytes);
  for (int64_t i = 0; i < times; ++i) all += text;
  return Value(std::move(all));
}

Result<Value> Join(const List& a, const List& b, Budget& budget) {
  NXDKIT_TRY(budget.Charge((a.size() + b.size()) * kBytesPerUnit));
  List list = a;
  list.insert(list.end(), b.begin(), b.end());
  return Value(std::move(list));
}

Result<bool> Contains(const Value& value, const Value& where, Budget& budget) {
  if (const std::string* text = where.text()) {
    if (value.text() == nullptr) return TypeError("in", value, where);
    NXDKIT_TRY(budget.Charge(text->size()));
    return text->find(*value.text()) != std::string::npos;
  }
  if (const Dict* dict = where.dict()) {
    NXDKIT_TRY(budget.Charge(dict->size()));
    return value.text() != nullptr && Find(*dict, *value.text()) != nullptr;
  }
  if (where.list() == nullptr && where.undefined() == nullptr) return TypeError("in", value, where);
  NXDKIT_ASSIGN(const List list, Iterate(where, budget));
  for (const Value& item : list) {
    NXDKIT_ASSIGN(const bool same, Equal(item, value, budget));
    if (same) return true;
  }
  return false;
}

// Which of less (-1), equal (0), greater (1); 2 for NaN.
Result<int> Order(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  if (a.integer() && b.integer())
    return *a.integer() < *b.integer() ? -1 : *a.integer() > *b.integer() ? 1 : 0;
  if (a.number() && b.number()) {
    const double x = *a.number(), y = *b.number();
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
  }
  if (a.text() != nullptr && b.text() != nullptr) {
    NXDKIT_TRY(budget.Charge(std::min(a.text()->size(), b.text()->size())));
    const int order = a.text()->compare(*b.text());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  return TypeError(op, a, b);
}

// The element at a place that may count from the end.
template <typename Sequence>
const typename Sequence::value_type* At(const Sequence& items, int64_t place) {
  const auto size = static_cast<int64_t>(items.size());
  if (place < 0) place += size;
  return place < 0 || place >= size ? nullptr : &items[static_cast<size_t>(place)];
}

Result<std::optional<int64_t>> SliceNumber(const Value& value) {
  if (value.is_none()) return std::optional<int64_t>();
  if (value.integer()) return value.integer();
  return Corrupt("a slice by {}", TypeName(value));
}

// Calls take(index) for what Python's slice takes of `size` elements.
template <typename Take>
void TakeSlice(int64_t size, std::optional<int64_t> from, std::optional<int64_t> to, int64_t step,
               Take take) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto bound = [&](std::optional<int64_t> place, int64_t otherwise) {
    if (!place) return otherwise;
    return std::clamp(*place < 0 ? std::max(*place, -size - 1) + size : *place, low, high);
  };
  const int64_t begin = bound(from, step > 0 ? low : high);
  const int64_t end = bound(to, step > 0 ? high : low);
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    take(static_cast<size_t>(i));
    if (step > size || step < -size) break;  // the next one is outside, and may not be a number
  }
}

}  // namespace

Result<Value> Binary(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  if (op == "~") {
    NXDKIT_ASSIGN(const std::string left, ToText(a, budget));
    NXDKIT_ASSIGN(const std::string right, ToText(b, budget));
    NXDKIT_TRY(CheckBytes(left.size() + right.size()));
    return Value(left + right);
  }
  if (a.integer() && b.integer()) return Integers(op, *a.integer(), *b.integer());
  if (a.number() && b.number()) return Floats(op, *a.number(), *b.number());
  if (op == "+" && a.text() != nullptr && b.text() != nullptr)
    return Concatenate(*a.text(), *b.text(), budget);
  if (op == "+" && a.list() != nullptr && b.list() != nullptr)
    return Join(*a.list(), *b.list(), budget);
  if (op == "*" && a.text() != nullptr && b.integer())
    return Repeat(*a.text(), *b.integer(), budget);
  if (op == "*" && a.integer() && b.text() != nullptr)
    return Repeat(*b.text(), *a.integer(), budget);
  if (op == "%" && a.text() != nullptr) return Unsupported("formatting by '%'");
  return TypeError(op, a, b);
}

Result<Value> Negate(const Value& value) {
  if (value.is_float()) return Value(-*value.number());
  if (value.integer()) return Integers("-", 0, *value.integer());
  return Corrupt("'-' before {}", TypeName(value));
}

Result<bool> Compare(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  NXDKIT_TRY(budget.Charge());
  if (op == "==" || op == "!=") {
    NXDKIT_ASSIGN(const bool same, Equal(a, b, budget));
    return same == (op == "==");
  }
  if (op == "in") return Contains(a, b, budget);
  if (op == "not in") {
    NXDKIT_ASSIGN(const bool found, Contains(a, b, budget));
    return !found;
  }
  NXDKIT_ASSIGN(const int order, Order(op, a, b, budget));
  if (order == 2) return false;
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  return op == ">" ? order > 0 : order >= 0;
}

Result<Value> Attribute(const Value& object, const std::string& name) {
  if (const Undefined* undefined = object.undefined())
    return Corrupt("'{}' is undefined", *undefined->name);
  if (IsMethod(object, name)) return Unsupported("the method '{}' without a call", name);
  const Dict* dict = object.space() != nullptr ? &object.space()->values : object.dict();
  const Value* found = dict == nullptr ? nullptr : Find(*dict, name);
  return found == nullptr ? Value::MakeUndefined(name) : *found;
}

Result<Value> Index(const Value& object, const Value& key, Budget& budget) {
  if (key.text() != nullptr && object.dict() == nullptr) return Attribute(object, *key.text());
  if (const Undefined* undefined = object.undefined())
    return Corrupt("'{}' is undefined", *undefined->name);
  const Value* found = nullptr;
  if (const Dict* dict = object.dict()) {
    if (key.text() != nullptr) found = Find(*dict, *key.text());
  } else if (const List* list = object.list(); list != nullptr && key.integer()) {
    found = At(*list, *key.integer());
  } else if (const std::string* text = object.text(); text != nullptr && key.integer()) {
    NXDKIT_TRY(budget.Charge(text->size()));
    const std::vector<std::string_view> points = Points(*text);
    const std::string_view* point = At(points, *key.integer());
    if (point != nullptr) return Value(std::string(*point));
  }
  if (found != nullptr) return *found;
  NXDKIT_ASSIGN(std::string name, ToText(key, budget));
  return Value::MakeUndefined(std::move(name));
}

Result<Value> Slice(const Value& object, const Value& from, const Value& to, const Value& step,
                    Budget& budget) {
  NXDKIT_ASSIGN(const auto begin, SliceNumber(from));
  NXDKIT_ASSIGN(const auto end, SliceNumber(to));
  NXDKIT_ASSIGN(const auto by, SliceNumber(step));
  if (by == 0) return Corrupt("a slice by steps of 0");
  if (const std::string* text = object.text()) {
    NXDKIT_TRY(budget.Charge(text->size()));
    const std::vector<std::string_view> points = Points(*text);
    std::string taken;
    TakeSlice(static_cast<int64_t>(points.size()), begin, end, by.value_or(1),
              [&](size_t i) { taken += points[i]; });
    return Value(std::move(taken));
  }
  if (object.list() == nullptr) return Corrupt("a slice of {}", TypeName(object));
  const List& list = *object.list();
  NXDKIT_TRY(budget.Charge(list.size() * kBytesPerUnit));
  List taken;
  TakeSlice(static_cast<int64_t>(list.size()), begin, end, by.value_or(1),
            [&](size_t i) { taken.push_back(list[i]); });
  return Value(std::move(taken));
}

Result<List> Iterate(const Value& value, Budget& budget) {
  List items;
  if (const List* list = value.list()) {
    NXDKIT_TRY(budget.Charge(list->size() * kBytesPerUnit));
    items = *list;
  } else if (const Dict* dict = value.dict()) {
    NXDKIT_TRY(budget.Charge(dict->size() * kBytesPerUnit));
    for (const auto& [key, item] : *dict) items.push_back(key);
  } else if (const std::string* text = value.text()) {
    NXDKIT_TRY(budget.Charge(text->size() * kBytesPerUnit));
    for (const std::string_view point : Points(*text)) items.push_back(std::string(point));
  } else if (value.undefined() == nullptr) {
    return Corrupt("{} is not iterable", TypeName(value));
  }
  return items;
}

Result<int64_t> Length(const Value& value) {
  if (value.text() != nullptr) return static_cast<int64_t>(CountChars(*value.text()));
  if (value.list() != nullptr) return static_cast<int64_t>(value.list()->size());
  if (value.dict() != nullptr) return static_cast<int64_t>(value.dict()->size());
  if (value.undefined() != nullptr) return int64_t{0};
  return Corrupt("{} has no length", TypeName(value));
}

}  // namespace nxdkit::trainer::jinja
