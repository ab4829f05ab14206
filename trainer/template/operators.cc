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

constexpr size_t kMaxTextBytes = size_t{16} << 20;

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
  double whole = (a - rest) / b;
  if (rest == 0) {
    rest = std::copysign(0.0, b);
  } else if ((rest < 0) != (b < 0)) {
    rest += b;
    whole -= 1;
  }
  if (op == "%") return Value(rest);
  return Value(whole == 0 ? std::copysign(0.0, a / b) : std::nearbyint(whole));
}

Status CheckBytes(size_t bytes) {
  if (bytes <= kMaxTextBytes) return OkStatus();
  return OverLimit("a text of {} bytes is over the limit of {}", bytes, kMaxTextBytes);
}

// The other text as markupsafe escapes it when one of two is markup.
std::string Escaped(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>\"'";
  constexpr std::string_view kTexts[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
  std::string out;
  for (;;) {
    const size_t end = text.find_first_of(kSpecial);
    out += text.substr(0, end);
    if (end == std::string_view::npos) return out;
    out += kTexts[kSpecial.find(text[end])];
    text.remove_prefix(end + 1);
  }
}

Result<Value> Concatenate(const Value& a, const Value& b, Budget& budget) {
  const Form form = a.is_markup() || b.is_markup() ? Form::kMarkup : Form::kPlain;
  const auto part = [&](const Value& value) {
    return value.form() == form ? *value.text() : Escaped(*value.text());
  };
  NXDKIT_TRY(budget.Charge(a.text()->size() + b.text()->size()));
  std::string whole = part(a);
  whole += part(b);
  NXDKIT_TRY(CheckBytes(whole.size()));
  NXDKIT_TRY(budget.Charge(whole.size()));
  return Value(std::move(whole), form);
}

Result<Value> Repeat(const Value& repeated, int64_t times, Budget& budget) {
  const std::string& text = *repeated.text();
  if (times <= 0 || text.empty()) return Value("", repeated.form());
  const auto bytes = CheckedMul(text.size(), static_cast<size_t>(times));
  NXDKIT_TRY(CheckBytes(bytes.value_or(SIZE_MAX)));
  NXDKIT_TRY(budget.Charge(*bytes));
  std::string all;
  all.reserve(*bytes);
  for (int64_t i = 0; i < times; ++i) all += text;
  return Value(std::move(all), repeated.form());
}

Result<Value> Join(const Value& a, const Value& b, Budget& budget) {
  NXDKIT_TRY(budget.Charge((a.list()->size() + b.list()->size()) * Budget::kItemBytes));
  List list = *a.list();
  list.insert(list.end(), b.list()->begin(), b.list()->end());
  return Value(std::move(list), a.form());
}

Result<bool> Contains(const Value& value, const Value& where, Budget& budget) {
  if (const std::string* text = where.text()) {
    if (value.text() == nullptr) return TypeError("in", value, where);
    NXDKIT_TRY(budget.Charge(text->size()));
    return FindText(*text, *value.text()) != std::string::npos;
  }
  const std::optional<Key> key = Key::Of(value);
  const bool has_keys = where.dict() != nullptr || where.form() == Form::kKeys;
  if (has_keys && !key && value.undefined() == nullptr && value.function() == nullptr)
    return Corrupt("{} cannot be a key", TypeName(value));
  if (const Dict* dict = where.dict()) {
    NXDKIT_TRY(budget.Charge(dict->size() * Budget::kItemBytes));
    return key && FindKey(*dict, *key) != nullptr;
  }
  if (where.list() == nullptr && where.iterator() == nullptr && where.undefined() == nullptr)
    return TypeError("in", value, where);
  NXDKIT_ASSIGN(const List list, Iterate(where, budget));
  for (const Value& item : list) {
    NXDKIT_ASSIGN(const bool same, Equal(item, value, budget));
    if (same) return true;
  }
  return false;
}

// Less (-1), equal (0), greater (1); 2 for NaN.
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

// The element at an index that may count from the end.
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

// A position in a text that moves character by character, forwards or backwards.
class TextPlace {
 public:
  explicit TextPlace(std::string_view text) : text_(text) {}

  // The character at `index`, which must exist.
  std::string_view Go(size_t index) {
    for (; index_ < index; ++index_) at_ += CharBytes(text_, at_);
    for (; index_ > index; --index_) at_ = CharBegin(text_, at_ - 1);
    return text_.substr(at_, CharBytes(text_, at_));
  }

 private:
  std::string_view text_;
  size_t index_ = 0;
  size_t at_ = 0;  // where the character begins
};

// Calls take(index) for the elements of Python's slice of `size` elements.
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
    if (step > size || step < -size) break;  // the next index is out of range, and might overflow
  }
}

}  // namespace

Result<Value> Binary(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  if (op == "~") {
    NXDKIT_ASSIGN(const std::string left, ToText(a, budget));
    NXDKIT_ASSIGN(const std::string right, ToText(b, budget));
    NXDKIT_TRY(CheckBytes(left.size() + right.size()));
    NXDKIT_TRY(budget.Charge(left.size() + right.size()));
    return Value(left + right);
  }
  if (a.integer() && b.integer()) return Integers(op, *a.integer(), *b.integer());
  if (a.number() && b.number()) return Floats(op, *a.number(), *b.number());
  if (op == "+" && a.text() != nullptr && b.text() != nullptr) return Concatenate(a, b, budget);
  const bool joins = a.form() == Form::kPlain || a.form() == Form::kTuple;
  if (op == "+" && a.list() != nullptr && b.list() != nullptr && a.form() == b.form() && joins)
    return Join(a, b, budget);
  if (op == "*" && a.text() != nullptr && b.integer()) return Repeat(a, *b.integer(), budget);
  if (op == "*" && a.integer() && b.text() != nullptr) return Repeat(b, *a.integer(), budget);
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
    const std::optional<Key> wanted = Key::Of(key);
    if (wanted) found = FindKey(*dict, *wanted);
    // In this case jinja2 looks for an attribute of that name.
    if (found == nullptr && key.text() != nullptr && IsMethod(object, *key.text()))
      return Unsupported("the method '{}' without a call", *key.text());
  } else if (const List* list = object.list(); list != nullptr && key.integer()) {
    if (!object.is_view()) found = At(*list, *key.integer());
  } else if (const std::string* text = object.text(); text != nullptr && key.integer()) {
    NXDKIT_TRY(budget.Charge(text->size()));
    std::string_view rest = *text;
    int64_t place = *key.integer();
    if (place < 0) place += static_cast<int64_t>(CountChars(rest));
    for (const std::string_view point : Points(rest))
      if (place-- == 0) return Value(std::string(point), object.form());
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
    NXDKIT_TRY(budget.Charge(text->size() * 2));
    std::string taken;
    TextPlace at(*text);
    TakeSlice(static_cast<int64_t>(CountChars(*text)), begin, end, by.value_or(1),
              [&](size_t i) { taken += at.Go(i); });
    return Value(std::move(taken), object.form());
  }
  if (object.list() == nullptr || object.is_view())
    return Corrupt("a slice of {}", TypeName(object));
  if (object.form() == Form::kRange) return Unsupported("a slice of a range");
  const List& list = *object.list();
  NXDKIT_TRY(budget.Charge(list.size() * Budget::kItemBytes));
  List taken;
  TakeSlice(static_cast<int64_t>(list.size()), begin, end, by.value_or(1),
            [&](size_t i) { taken.push_back(list[i]); });
  return Value(std::move(taken), object.form());
}

Result<List> Iterate(const Value& value, Budget& budget) {
  List items;
  if (const List* list = value.list()) {
    NXDKIT_TRY(budget.Charge(list->size() * Budget::kItemBytes));
    items = *list;
  } else if (Iterator* iterator = value.iterator()) {
    if (std::exchange(iterator->is_used, true))
      return Unsupported("an iterator that was already used");
    items = std::move(iterator->items);
  } else if (const Dict* dict = value.dict()) {
    NXDKIT_TRY(budget.Charge(dict->size() * Budget::kOwnerBytes));
    for (const auto& [key, item] : *dict) items.push_back(key.value());
  } else if (const std::string* text = value.text()) {
    NXDKIT_TRY(budget.Charge(text->size() * Budget::kOwnerBytes));
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
