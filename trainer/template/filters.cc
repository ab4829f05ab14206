#include "trainer/template/filters.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/core.h>

#include "lib/base/errors.h"
#include "trainer/base/characters.h"
#include "trainer/base/python_numbers.h"
#include "trainer/template/functions.h"
#include "trainer/template/operators.h"
#include "trainer/template/print.h"
#include "trainer/template/python_case.h"
#include "trainer/template/python_text.h"
#include "trainer/template/tests.h"

namespace nxdkit::trainer::jinja {
namespace {

constexpr int64_t kMaxIndent = 1000;  // spaces
constexpr int64_t kMaxPlaces = 15;    // decimals

using Filter = Result<Value> (*)(const Value& value, const Arguments& arguments, Budget& budget);

Form FormOf(const Value& value) { return value.is_markup() ? Form::kMarkup : Form::kPlain; }

Result<Value> Trim(const Value& value, const Arguments& arguments, Budget& budget) {
  NXDKIT_ASSIGN(const auto chars, arguments.Text(0, "chars"));
  NXDKIT_ASSIGN(const std::string text, ToText(value, budget));
  NXDKIT_ASSIGN(std::string stripped, Strip(text, chars, true, true));
  if (value.is_markup() && chars) return Unsupported("characters to trim {}", TypeName(value));
  return Value(std::move(stripped), FormOf(value));
}

// (item, key), or None for the default.
Status ReadSeparators(const Value* value, JsonStyle* style) {
  if (value == nullptr || value->is_none()) return OkStatus();
  const List* list = value->list();
  if (list == nullptr || list->size() != 2 || (*list)[0].text() == nullptr ||
      (*list)[1].text() == nullptr || (*list)[0].text()->empty() || (*list)[1].text()->empty())
    return Unsupported("separators that are not two strings");
  style->item_separator = *(*list)[0].text();
  style->key_separator = *(*list)[1].text();
  return OkStatus();
}

Result<Value> ToJsonFilter(const Value& value, const Arguments& arguments, Budget& budget) {
  JsonStyle style;
  const Value* ascii = arguments.Get(0, "ensure_ascii");
  const Value* indent = arguments.Get(1, "indent");
  const Value* sorted = arguments.Get(3, "sort_keys");
  style.ensure_ascii = ascii != nullptr && IsTrue(*ascii);
  style.sort_keys = sorted != nullptr && IsTrue(*sorted);
  if (indent != nullptr && !indent->is_none()) {
    if (!indent->integer()) return Unsupported("an indent that is not an int");
    style.indent = *indent->integer();
  }
  NXDKIT_TRY(ReadSeparators(arguments.Get(2, "separators"), &style));
  NXDKIT_ASSIGN(std::string text, ToJson(value, style, budget));
  return Value(std::move(text));
}

// Words are separated by white space and - ( { [ <, unlike in str.title().
Result<Value> TitleFilter(const Value& value, const Arguments&, Budget& budget) {
  NXDKIT_ASSIGN(const std::string text, ToText(value, budget));
  NXDKIT_TRY(budget.Charge(text.size() * 16));
  std::string out;
  bool begins = true;
  for (const std::string_view point : Points(text)) {
    out += begins ? PythonUpper(point) : PythonLower(point);
    begins =
        SpaceBytes(point, 0) > 0 || std::string_view("-({[<").find(point) != std::string_view::npos;
  }
  return Value(std::move(out));
}

Result<Value> LengthFilter(const Value& value, const Arguments&, Budget&) {
  NXDKIT_ASSIGN(const int64_t length, Length(value));
  return Value(length);
}

template <std::string (*kMap)(std::string_view)>
Result<Value> MapText(const Value& value, const Arguments&, Budget& budget) {
  NXDKIT_ASSIGN(const std::string text, ToText(value, budget));
  NXDKIT_TRY(budget.Charge(text.size() * 4));  // slower than copying
  return Value(kMap(text), FormOf(value));
}

Result<Value> String(const Value& value, const Arguments&, Budget& budget) {
  if (value.text() != nullptr) return value;
  NXDKIT_ASSIGN(std::string text, ToText(value, budget));
  return Value(std::move(text));
}

Result<Value> Safe(const Value& value, const Arguments&, Budget& budget) {
  NXDKIT_ASSIGN(std::string text, ToText(value, budget));
  return Value(std::move(text), Form::kMarkup);
}

// Text that spells a float gives its integer part.
Result<Value> Int(const Value& value, const Arguments& arguments, Budget& budget) {
  constexpr double kEnd = 9223372036854775808.0;  // of int64_t
  const Value* otherwise = arguments.Get(0, "default");
  if (const Undefined* undefined = value.undefined())
    return Corrupt("'{}' is undefined", *undefined->name);
  if (value.integer()) return Value(*value.integer());
  std::optional<double> real;
  if (value.is_float()) real = value.number();
  if (value.text() != nullptr) {
    NXDKIT_TRY(budget.Charge(value.text()->size() * 16));
    const std::optional<PythonInt> whole = ParsePythonInt(*value.text());
    if (whole && !whole->fits) return OverLimit("int of a number beyond 64 bits");
    if (whole) return Value(whole->value);
    real = ParsePythonFloat(*value.text());
  }
  if (value.is_float() && std::isinf(*real)) return Corrupt("int of an infinite number");
  if (real && std::isfinite(*real)) {
    if (*real < -kEnd || *real >= kEnd) return OverLimit("int of a number beyond 64 bits");
    return Value(static_cast<int64_t>(*real));
  }
  return otherwise == nullptr ? Value(int64_t{0}) : *otherwise;
}

Result<Value> Float(const Value& value, const Arguments& arguments, Budget& budget) {
  const Value* otherwise = arguments.Get(0, "default");
  if (const Undefined* undefined = value.undefined())
    return Corrupt("'{}' is undefined", *undefined->name);
  std::optional<double> number = value.number();
  if (value.text() != nullptr) {
    NXDKIT_TRY(budget.Charge(value.text()->size() * 16));
    number = ParsePythonFloat(*value.text());
  }
  if (number) return Value(*number);
  return otherwise == nullptr ? Value(0.0) : *otherwise;
}

Result<Value> ReplaceFilter(const Value& value, const Arguments& arguments, Budget& budget) {
  NXDKIT_ASSIGN(const std::string text, ToText(value, budget));
  NXDKIT_ASSIGN(const auto from, arguments.Text(0, "old"));
  NXDKIT_ASSIGN(const auto to, arguments.Text(1, "new"));
  if (!from || !to) return Corrupt("needs two arguments");
  const Value* count = arguments.Get(2, "count");
  const int64_t most = count == nullptr ? -1 : count->integer().value_or(-1);
  NXDKIT_ASSIGN(std::string out, Replace(text, *from, *to, most, budget));
  return Value(std::move(out));
}

// "a.b" of an element, where a numeric part is an index; without a path, the element itself.
Result<Value> DottedAttribute(Value value, const std::optional<std::string>& whole,
                              Budget& budget) {
  if (!whole) return value;
  for (std::string_view path = *whole;;) {
    const std::string part(path.substr(0, path.find('.')));
    const bool is_index = !part.empty() && std::ranges::all_of(part, IsDigit);
    const std::optional<int64_t> index = ParseNumber<int64_t>(part);
    if (is_index && !index) return OverLimit("the index {}", part.substr(0, 40));
    NXDKIT_ASSIGN(value, Index(value, is_index ? Value(*index) : Value(part), budget));
    if (part.size() == path.size()) return value;
    path.remove_prefix(part.size() + 1);
  }
}

Result<Value> Join(const Value& value, const Arguments& arguments, Budget& budget) {
  NXDKIT_ASSIGN(const auto separator, arguments.Text(0, "d"));
  NXDKIT_ASSIGN(const auto attribute, arguments.Text(1, "attribute"));
  NXDKIT_ASSIGN(const List items, Iterate(value, budget));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    NXDKIT_ASSIGN(const Value item, DottedAttribute(items[i], attribute, budget));
    NXDKIT_ASSIGN(const std::string text, ToText(item, budget));
    if (i > 0 && separator) out += *separator;
    out += text;
    NXDKIT_TRY(budget.Charge(text.size() + (separator ? separator->size() : 0)));
  }
  return Value(std::move(out));
}

template <bool kFirst>
Result<Value> End(const Value& value, const Arguments&, Budget& budget) {
  if (!kFirst && value.iterator() != nullptr) return Corrupt("last of {}", TypeName(value));
  NXDKIT_ASSIGN(const List items, Iterate(value, budget));
  if (items.empty()) return Value::MakeUndefined(kFirst ? "first" : "last");
  return kFirst ? items.front() : items.back();
}

Result<Value> ListFilter(const Value& value, const Arguments&, Budget& budget) {
  NXDKIT_ASSIGN(List items, Iterate(value, budget));
  return Value(std::move(items));
}

Result<Value> Reverse(const Value& value, const Arguments&, Budget& budget) {
  if (value.text() != nullptr) return Slice(value, Value(), Value(), Value(int64_t{-1}), budget);
  NXDKIT_ASSIGN(List items, Iterate(value, budget));
  std::ranges::reverse(items);
  return value.iterator() != nullptr ? Value(std::move(items))
                                     : Value::MakeIterator(std::move(items));
}

Result<Value> Default(const Value& value, const Arguments& arguments, Budget&) {
  const Value* otherwise = arguments.Get(0, "default_value");
  const Value* falsy = arguments.Get(1, "boolean");
  const bool replaces =
      value.undefined() != nullptr || (falsy != nullptr && IsTrue(*falsy) && !IsTrue(value));
  if (!replaces) return value;
  return otherwise == nullptr ? Value("") : *otherwise;
}

Result<Value> Items(const Value& value, const Arguments&, Budget& budget) {
  if (value.undefined() != nullptr) return Value::MakeIterator({});
  if (value.dict() == nullptr) return Corrupt("the items of {}", TypeName(value));
  NXDKIT_ASSIGN(const Value items, CallMethod(value, "items", {}, budget));
  return Value::MakeIterator(*items.list());
}

// By key, case-insensitively.
Result<Value> DictSort(const Value& value, const Arguments&, Budget& budget) {
  if (value.dict() == nullptr) return Corrupt("the items of {}", TypeName(value));
  NXDKIT_TRY(budget.Charge(value.dict()->size() * 2 * Budget::kOwnerBytes));
  std::vector<std::pair<std::string, const Dict::value_type*>> rows;
  for (const auto& row : *value.dict()) {
    if (row.first.other != nullptr) return Unsupported("sorted keys that are not texts");
    NXDKIT_TRY(budget.Charge(row.first.text.size() * 4));
    rows.emplace_back(PythonLower(row.first.text), &row);
  }
  std::ranges::stable_sort(rows, [](const auto& a, const auto& b) { return a.first < b.first; });
  List items;
  for (const auto& [lower, row] : rows)
    items.push_back(Value(List{row->first.value(), row->second}, Form::kTuple));
  return Value(std::move(items));
}

Result<Value> Abs(const Value& value, const Arguments&, Budget&) {
  if (!value.number()) return Corrupt("abs of {}", TypeName(value));
  if (*value.number() < 0) return Negate(value);
  return value.boolean() != nullptr ? Value(*value.integer()) : value;
}

// The keys for min, max and sort: text is case-insensitive unless requested otherwise.
Result<std::vector<Value>> SortKeys(const List& items, const Arguments& arguments,
                                    const Value* case_sensitive, Budget& budget,
                                    size_t attribute_place) {
  NXDKIT_ASSIGN(const auto attribute, arguments.Text(attribute_place, "attribute"));
  if (attribute && attribute->find(',') != std::string::npos)
    return Unsupported("several attributes to sort by");
  const bool folds = case_sensitive == nullptr || !IsTrue(*case_sensitive);
  std::vector<Value> keys;
  for (const Value& item : items) {
    NXDKIT_ASSIGN(const Value key, DottedAttribute(item, attribute, budget));
    NXDKIT_TRY(budget.Charge(key.text() == nullptr ? 0 : key.text()->size() * 4));
    keys.push_back(folds && key.text() != nullptr ? Value(PythonLower(*key.text())) : key);
  }
  return keys;
}

template <bool kMin>
Result<Value> Extreme(const Value& value, const Arguments& arguments, Budget& budget) {
  NXDKIT_ASSIGN(const List items, Iterate(value, budget));
  if (items.empty()) return Value::MakeUndefined(kMin ? "min" : "max");
  NXDKIT_ASSIGN(const std::vector<Value> keys,
                SortKeys(items, arguments, arguments.Get(0, "case_sensitive"), budget, 1));
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    NXDKIT_ASSIGN(const bool better, Compare(kMin ? "<" : ">", keys[i], keys[best], budget));
    if (better) best = i;
  }
  return items[best];
}

// A merge sort of indices: an inconsistent order causes an error, not undefined behaviour.
Result<std::vector<size_t>> SortedPlaces(const std::vector<Value>& keys, bool reverse,
                                         Budget& budget) {
  std::vector<size_t> order(keys.size()), merged(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, order.size());
      const size_t end = std::min(begin + 2 * width, order.size());
      size_t left = begin, right = middle;
      for (size_t at = begin; at < end; ++at) {
        bool takes_right = left == middle;
        if (left < middle && right < end)
          NXDKIT_TRY(Compare(reverse ? ">" : "<", keys[order[right]], keys[order[left]], budget)
                         .To(takes_right));
        merged[at] = order[takes_right ? right++ : left++];
      }
    }
    order.swap(merged);
  }
  return order;
}

Result<Value> Sort(const Value& value, const Arguments& arguments, Budget& budget) {
  NXDKIT_ASSIGN(const List items, Iterate(value, budget));
  NXDKIT_ASSIGN(const std::vector<Value> keys,
                SortKeys(items, arguments, arguments.Get(1, "case_sensitive"), budget, 2));
  const Value* reverse = arguments.Get(0, "reverse");
  NXDKIT_ASSIGN(const std::vector<size_t> order,
                SortedPlaces(keys, reverse != nullptr && IsTrue(*reverse), budget));
  List sorted;
  for (const size_t place : order) sorted.push_back(items[place]);
  return Value(std::move(sorted));
}

Result<Value> Unique(const Value& value, const Arguments& arguments, Budget& budget) {
  NXDKIT_ASSIGN(const List items, Iterate(value, budget));
  NXDKIT_ASSIGN(const std::vector<Value> keys,
                SortKeys(items, arguments, arguments.Get(0, "case_sensitive"), budget, 1));
  List kept;
  std::vector<const Value*> seen;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!Key::Of(keys[i]) && keys[i].undefined() == nullptr)
      return Corrupt("unique with {}", TypeName(keys[i]));
    bool is_new = true;
    for (const Value* other : seen) {
      NXDKIT_ASSIGN(const bool same, Equal(*other, keys[i], budget));
      is_new = is_new && !same;
    }
    if (!is_new) continue;
    seen.push_back(&keys[i]);
    kept.push_back(items[i]);
  }
  return Value::MakeIterator(std::move(kept));
}

Result<Value> Sum(const Value& value, const Arguments& arguments, Budget& budget) {
  NXDKIT_ASSIGN(const List items, Iterate(value, budget));
  NXDKIT_ASSIGN(const auto attribute, arguments.Text(0, "attribute"));
  const Value* start = arguments.Get(1, "start");
  Value sum = start == nullptr ? Value(int64_t{0}) : *start;
  for (const Value& item : items) {
    NXDKIT_ASSIGN(const Value term, DottedAttribute(item, attribute, budget));
    NXDKIT_ASSIGN(sum, Binary("+", sum, term, budget));
  }
  return sum;
}

// Indents every line but the first, or all; empty lines only on request.
Result<Value> Indent(const Value& value, const Arguments& arguments, Budget& budget) {
  if (value.text() == nullptr) return Corrupt("indent of {}", TypeName(value));
  const std::string& text = *value.text();
  const Value* width = arguments.Get(0, "width");
  const Value* first = arguments.Get(1, "first");
  const Value* blank = arguments.Get(2, "blank");
  std::string indent(4, ' ');
  if (width != nullptr && width->text() != nullptr)
    indent = *width->text();
  else if (width != nullptr && (!width->integer() || *width->integer() > kMaxIndent))
    return Unsupported("an indent that is neither a text nor a small number");
  else if (width != nullptr)
    indent.assign(static_cast<size_t>(std::max<int64_t>(0, *width->integer())), ' ');
  const bool indents_blank = blank != nullptr && IsTrue(*blank);
  std::string out = first != nullptr && IsTrue(*first) ? indent : "";
  size_t begin = 0;
  for (;;) {
    const size_t end = text.find('\n', begin);
    out += std::string_view(text).substr(begin, end - begin);
    NXDKIT_TRY(budget.Charge(indent.size() + out.size() / 64));
    if (end == std::string::npos) return Value(std::move(out), FormOf(value));
    out += '\n';
    begin = end + 1;
    const bool is_blank = begin == text.size() || text[begin] == '\n';
    if (indents_blank || !is_blank) out += indent;
  }
}

// Rounds to so many decimals: "common" is Python's round(), the others are directed.
Result<Value> Round(const Value& value, const Arguments& arguments, Budget&) {
  NXDKIT_ASSIGN(const auto method, arguments.Text(1, "method"));
  const Value* precision = arguments.Get(0, "precision");
  const int64_t places = precision == nullptr ? 0 : precision->integer().value_or(-1);
  if (!value.number()) return Corrupt("round of {}", TypeName(value));
  if (places < 0 || places > kMaxPlaces)
    return Unsupported("a precision that is not 0 to {}", kMaxPlaces);
  const double number = *value.number();
  if (method && (*method == "floor" || *method == "ceil")) {
    const double factor = std::pow(10.0, static_cast<double>(places));
    return Value((*method == "floor" ? std::floor(number * factor) : std::ceil(number * factor)) /
                 factor);
  }
  if (method && *method != "common") return Corrupt("the method '{}' of round", *method);
  if (!value.is_float()) return Value(*value.integer());
  // Correctly rounded from the exact value, as in Python.
  return Value(ParseNumber<double>(fmt::format("{:.{}f}", number, places)).value_or(number));
}

Arguments Rest(const Arguments& arguments, size_t from) {
  Arguments rest;
  for (size_t i = from; i < arguments.values.size(); ++i)
    rest.values.push_back(arguments.values[i]);
  return rest;
}

// map('upper'), map(attribute='role'), map(attribute='role', default='')
Result<Value> Map(const Value& value, const Arguments& arguments, Budget& budget) {
  NXDKIT_ASSIGN(const List items, Iterate(value, budget));
  List mapped;
  const Value* attribute = Find(arguments.named, "attribute");
  if (attribute == nullptr) {
    NXDKIT_ASSIGN(const auto name, arguments.Text(0, "filter"));
    if (!name) return Unsupported("map without a filter or an attribute");
    for (const Value& item : items) {
      NXDKIT_ASSIGN(Value out, ApplyFilter(*name, item, Rest(arguments, 1), budget));
      mapped.push_back(std::move(out));
    }
    return Value::MakeIterator(std::move(mapped));
  }
  NXDKIT_TRY(arguments.Allow({0, {"attribute", "default"}}));
  if (attribute->text() == nullptr) return Unsupported("an attribute that is not a str");
  const Value* otherwise = Find(arguments.named, "default");
  for (const Value& item : items) {
    NXDKIT_ASSIGN(Value out, DottedAttribute(item, *attribute->text(), budget));
    mapped.push_back(out.undefined() != nullptr && otherwise != nullptr ? *otherwise : out);
  }
  return Value::MakeIterator(std::move(mapped));
}

// select, reject, selectattr, rejectattr.
template <bool kKeeps, bool kAttribute>
Result<Value> Select(const Value& value, const Arguments& arguments, Budget& budget) {
  NXDKIT_TRY(arguments.Allow({arguments.values.size()}));
  NXDKIT_ASSIGN(const List items, Iterate(value, budget));
  constexpr size_t kTest = kAttribute ? 1 : 0;
  std::optional<std::string> attribute;
  if (kAttribute) {
    NXDKIT_ASSIGN(attribute, arguments.Text(0, "attribute"));
    if (!attribute) return Corrupt("needs an attribute");
  }
  NXDKIT_ASSIGN(const auto test, arguments.Text(kTest, "test"));
  List kept;
  for (const Value& item : items) {
    NXDKIT_ASSIGN(const Value tested, DottedAttribute(item, attribute, budget));
    bool passes = IsTrue(tested);
    if (test) NXDKIT_TRY(ApplyTest(*test, tested, Rest(arguments, kTest + 1), budget).To(passes));
    if (passes == kKeeps) kept.push_back(item);
  }
  return Value::MakeIterator(std::move(kept));
}

struct Row {
  std::string_view name;
  Filter filter;
  Parameters takes = {};
  bool checks = true;  // false: its parameters depend on its arguments
};
constexpr Row kFilters[] = {
    {"trim", Trim, {1, {"chars"}}},
    {"tojson", ToJsonFilter, {4, {"ensure_ascii", "indent", "separators", "sort_keys"}}},
    {"length", LengthFilter},
    {"count", LengthFilter},
    {"string", String},
    {"safe", Safe},
    {"upper", MapText<PythonUpper>},
    {"lower", MapText<PythonLower>},
    {"capitalize", MapText<Capitalize>},
    {"int", Int, {1, {"default"}}},
    {"float", Float, {1, {"default"}}},
    {"abs", Abs},
    {"min", Extreme<true>, {2, {"case_sensitive", "attribute"}}},
    {"max", Extreme<false>, {2, {"case_sensitive", "attribute"}}},
    {"sort", Sort, {3, {"reverse", "case_sensitive", "attribute"}}},
    {"unique", Unique, {2, {"case_sensitive", "attribute"}}},
    {"sum", Sum, {2, {"attribute", "start"}}},
    {"indent", Indent, {3, {"width", "first", "blank"}}},
    {"round", Round, {2, {"precision", "method"}}},
    {"title", TitleFilter},
    {"replace", ReplaceFilter, {3, {"old", "new", "count"}}},
    {"join", Join, {2, {"d", "attribute"}}},
    {"first", End<true>},
    {"last", End<false>},
    {"list", ListFilter},
    {"reverse", Reverse},
    {"default", Default, {2, {"default_value", "boolean"}}},
    {"d", Default, {2, {"default_value", "boolean"}}},
    {"items", Items},
    {"dictsort", DictSort},
    {"map", Map, {}, false},
    {"select", Select<true, false>, {}, false},
    {"reject", Select<false, false>, {}, false},
    {"selectattr", Select<true, true>, {}, false},
    {"rejectattr", Select<false, true>, {}, false},
};

}  // namespace

Result<Value> ApplyFilter(std::string_view name, const Value& value, const Arguments& arguments,
                          Budget& budget) {
  NXDKIT_TRY(budget.Charge(value.text() == nullptr ? 0 : value.text()->size()));
  const auto* row = std::ranges::find(kFilters, name, &Row::name);
  if (row == std::end(kFilters)) return Unsupported("the filter '{}' is not known", name);
  if (row->checks) NXDKIT_TRY(arguments.Allow(row->takes));
  return row->filter(value, arguments, budget);
}

}  // namespace nxdkit::trainer::jinja
