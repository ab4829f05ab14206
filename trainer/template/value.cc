#include "trainer/template/value.h"

#include <algorithm>

#include "lib/base/errors.h"

namespace nxdkit::trainer::jinja {
namespace {

Result<bool> EqualLists(const List& a, const List& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    NXDKIT_ASSIGN(const bool same, Equal(a[i], b[i], budget));
    if (!same) return false;
  }
  return true;
}

Result<bool> EqualDicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a) {
    NXDKIT_TRY(budget.Charge(b.size()));
    const Value* other = FindKey(b, key);
    if (other == nullptr) return false;
    NXDKIT_ASSIGN(const bool same, Equal(value, *other, budget));
    if (!same) return false;
  }
  return true;
}

int DepthAbove(const List& list) {
  int depth = 0;
  for (const Value& item : list) depth = std::max(depth, item.depth());
  return depth + 1;
}

std::string_view ListName(Form form) {
  switch (form) {
    case Form::kTuple:
      return "a tuple";
    case Form::kRange:
      return "a range";
    case Form::kKeys:
      return "the keys of a dict";
    case Form::kValues:
      return "the values of a dict";
    case Form::kItems:
      return "the items of a dict";
    default:
      return "a list";
  }
}

}  // namespace

Value::Value(List list, Form form) : depth_(DepthAbove(list)), form_(form) {
  state_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) {
  for (const auto& [key, item] : dict) depth_ = std::max(depth_, item.depth_);
  ++depth_;
  state_ = std::make_shared<const Dict>(std::move(dict));
}

Value Value::MakeIterator(List items) {
  Value value;
  value.depth_ = DepthAbove(items);
  value.state_ = std::make_shared<Iterator>(Iterator{std::move(items)});
  return value;
}

Value Value::MakeUndefined(std::string name) {
  Value value;
  value.state_ = Undefined{std::make_shared<const std::string>(std::move(name))};
  return value;
}

std::optional<int64_t> Value::integer() const {
  if (const auto* whole = std::get_if<int64_t>(&state_)) return *whole;
  if (const bool* truth = boolean()) return *truth ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const auto* real = std::get_if<double>(&state_)) return *real;
  const std::optional<int64_t> whole = integer();
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

std::optional<Key> Key::Of(const Value& value) {
  if (value.text() != nullptr) return Key(*value.text());
  if (!value.number() && !value.is_none()) return std::nullopt;
  Key key("");
  key.other = std::make_shared<const Value>(value);
  return key;
}

Value Key::value() const { return other == nullptr ? Value(text) : *other; }

bool Key::operator==(const Key& wanted) const {
  if (other == nullptr || wanted.other == nullptr)
    return other == wanted.other && text == wanted.text;
  if (other->integer() && wanted.other->integer())
    return *other->integer() == *wanted.other->integer();
  if (other->number() && wanted.other->number()) return *other->number() == *wanted.other->number();
  return other->is_none() && wanted.other->is_none();
}

const Value* Find(const Dict& dict, std::string_view key) {
  const auto found = std::ranges::find_if(dict, [&](const auto& row) { return row.first == key; });
  return found == dict.end() ? nullptr : &found->second;
}

const Value* FindKey(const Dict& dict, const Key& key) {
  const auto found = std::ranges::find_if(dict, [&](const auto& row) { return row.first == key; });
  return found == dict.end() ? nullptr : &found->second;
}

bool IsTrue(const Value& value) {
  if (value.number()) return *value.number() != 0;
  if (value.text() != nullptr) return !value.text()->empty();
  if (value.list() != nullptr) return !value.list()->empty();
  if (value.dict() != nullptr) return !value.dict()->empty();
  return !value.is_none() && value.undefined() == nullptr;
}

// Recursive: the producers of values bound their depth.
Result<bool> Equal(const Value& a, const Value& b, Budget& budget) {
  NXDKIT_TRY(budget.Charge());
  if (a.integer() && b.integer()) return *a.integer() == *b.integer();
  if (a.number() && b.number()) return *a.number() == *b.number();
  if (a.text() != nullptr && b.text() != nullptr) {
    NXDKIT_TRY(budget.Charge(std::min(a.text()->size(), b.text()->size())));
    return *a.text() == *b.text();
  }
  if (a.is_view() || b.is_view() || a.iterator() != nullptr || b.iterator() != nullptr)
    return Unsupported("'==' between {} and {}", TypeName(a), TypeName(b));
  if (a.list() != nullptr && b.list() != nullptr) {
    if (a.form() != b.form()) return false;
    return EqualLists(*a.list(), *b.list(), budget);
  }
  if (a.dict() != nullptr && b.dict() != nullptr) return EqualDicts(*a.dict(), *b.dict(), budget);
  if (a.space() != nullptr) return a.space() == b.space();
  if (a.function() != nullptr) return a.function() == b.function();
  return (a.is_none() && b.is_none()) || (a.undefined() != nullptr && b.undefined() != nullptr);
}

std::string_view TypeName(const Value& value) {
  if (value.undefined() != nullptr) return "an undefined value";
  if (value.is_none()) return "None";
  if (value.boolean() != nullptr) return "a bool";
  if (value.integer()) return "an int";
  if (value.is_float()) return "a float";
  if (value.text() != nullptr) return value.is_markup() ? "a text marked as safe" : "a str";
  if (value.iterator() != nullptr) return "an iterator";
  if (value.list() != nullptr) return ListName(value.form());
  if (value.dict() != nullptr) return "a dict";
  return value.space() != nullptr ? "a namespace" : "a function";
}

Status Budget::Charge(size_t bytes) {
  constexpr size_t kMaxUnits = 5'000'000, kBytesPerUnit = 16;
  used_ += 1 + bytes / kBytesPerUnit;
  if (used_ <= kMaxUnits) return OkStatus();
  return OverLimit("more than {} steps", kMaxUnits);
}

}  // namespace nxdkit::trainer::jinja
