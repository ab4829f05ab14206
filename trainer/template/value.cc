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
    const Value* other = Find(b, key);
    if (other == nullptr) return false;
    NXDKIT_ASSIGN(const bool same, Equal(value, *other, budget));
    if (!same) return false;
  }
  return true;
}

}  // namespace

Value::Value(List list) {
  for (const Value& item : list) depth_ = std::max(depth_, item.depth_);
  ++depth_;
  state_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) {
  for (const auto& [key, item] : dict) depth_ = std::max(depth_, item.depth_);
  ++depth_;
  state_ = std::make_shared<const Dict>(std::move(dict));
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

const Value* Find(const Dict& dict, std::string_view key) {
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

// By recursion: what makes values bounds their depth.
Result<bool> Equal(const Value& a, const Value& b, Budget& budget) {
  NXDKIT_TRY(budget.Charge());
  if (a.integer() && b.integer()) return *a.integer() == *b.integer();
  if (a.number() && b.number()) return *a.number() == *b.number();
  if (a.text() != nullptr && b.text() != nullptr) {
    NXDKIT_TRY(budget.Charge(std::min(a.text()->size(), b.text()->size())));
    return *a.text() == *b.text();
  }
  if (a.list() != nullptr && b.list() != nullptr) return EqualLists(*a.list(), *b.list(), budget);
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
  if (value.text() != nullptr) return "a str";
  if (value.list() != nullptr) return "a list";
  if (value.dict() != nullptr) return "a dict";
  return value.space() != nullptr ? "a namespace" : "a function";
}

Status Budget::Charge(size_t bytes) {
  constexpr size_t kMaxUnits = 20'000'000;
  used_ += 1 + bytes / kBytesPerUnit;
  if (used_ <= kMaxUnits) return OkStatus();
  return OverLimit("more than {} steps", kMaxUnits);
}

}  // namespace nxdkit::trainer::jinja
