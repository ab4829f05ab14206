#include "trainer/template/functions.h"

#include <algorithm>
#include <ctime>

#include "lib/base/errors.h"
#include "trainer/base/characters.h"
#include "trainer/template/print.h"
#include "trainer/template/python_case.h"
#include "trainer/template/python_text.h"

namespace nxdkit::trainer::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // as in the sandbox of jinja2
constexpr size_t kMaxFormatBytes = 200;

using TextMethod = Result<Value> (*)(const std::string& text, const Arguments& arguments,
                                     Budget& budget);

// startswith and endswith take a str, or a tuple of which one element is enough.
template <bool kFront>
Result<Value> HasEnd(const std::string& text, const Arguments& arguments, Budget& budget) {
  const Value* wanted = arguments.Get(0, "");
  if (wanted == nullptr) return Corrupt("an argument is missing");
  const List list = wanted->form() == Form::kTuple ? *wanted->list() : List{*wanted};
  NXDKIT_TRY(budget.Charge(list.size() * Budget::kItemBytes));
  for (const Value& item : list) {
    if (item.text() == nullptr) return Corrupt("found {}, expected a str", TypeName(item));
    if (kFront ? text.starts_with(*item.text()) : text.ends_with(*item.text())) return Value(true);
  }
  return Value(false);
}

template <bool kLeft, bool kRight>
Result<Value> StripMethod(const std::string& text, const Arguments& arguments, Budget&) {
  NXDKIT_ASSIGN(const std::optional<std::string> chars, arguments.Text(0, "chars"));
  NXDKIT_ASSIGN(std::string stripped, Strip(text, chars, kLeft, kRight));
  return Value(std::move(stripped));
}

// str.split() without a separator: at runs of white space, with none at the ends; the rest after
// the last cut keeps its own.
Result<List> SplitAtSpace(std::string_view text, int64_t most, Budget& budget) {
  List parts;
  while (true) {
    while (const size_t bytes = SpaceBytes(text, 0)) text.remove_prefix(bytes);
    if (text.empty()) return parts;
    NXDKIT_TRY(budget.Charge(Budget::kOwnerBytes));
    size_t end = 0;
    if (most >= 0 && static_cast<int64_t>(parts.size()) >= most) end = text.size();
    while (end < text.size() && SpaceBytes(text, end) == 0) end += CharBytes(text, end);
    parts.push_back(std::string(text.substr(0, end)));
    text.remove_prefix(end);
  }
}

Result<Value> Split(const std::string& text, const Arguments& arguments, Budget& budget) {
  NXDKIT_ASSIGN(const std::optional<std::string> separator, arguments.Text(0, "sep"));
  const Value* limit = arguments.Get(1, "maxsplit");
  if (limit != nullptr && !limit->integer())
    return Corrupt("maxsplit is {}, expected an int", TypeName(*limit));
  const int64_t most = limit == nullptr ? -1 : *limit->integer();
  if (!separator) {
    NXDKIT_ASSIGN(List words, SplitAtSpace(text, most, budget));
    return Value(std::move(words));
  }
  if (separator->empty()) return Corrupt("split() by an empty separator");
  List parts;
  size_t begin = 0;
  for (;;) {
    NXDKIT_TRY(budget.Charge(Budget::kOwnerBytes));
    const bool is_full = most >= 0 && static_cast<int64_t>(parts.size()) == most;
    const size_t end = is_full ? std::string::npos : FindText(text, *separator, begin);
    parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) return Value(std::move(parts));
    begin = end + separator->size();
  }
}

Result<Value> ReplaceMethod(const std::string& text, const Arguments& arguments, Budget& budget) {
  NXDKIT_ASSIGN(const auto from, arguments.Text(0, "old"));
  NXDKIT_ASSIGN(const auto to, arguments.Text(1, "new"));
  if (!from || !to) return Corrupt("replace() needs two arguments");
  const Value* count = arguments.Get(2, "count");
  NXDKIT_ASSIGN(
      std::string out,
      Replace(text, *from, *to, count == nullptr ? -1 : count->integer().value_or(-1), budget));
  return Value(std::move(out));
}

Result<Value> FindMethod(const std::string& text, const Arguments& arguments, Budget& budget) {
  NXDKIT_TRY(budget.Charge(text.size()));
  NXDKIT_ASSIGN(const auto wanted, arguments.Text(0, "sub"));
  if (!wanted) return Corrupt("an argument is missing");
  const size_t at = FindText(text, *wanted);
  if (at == std::string::npos) return Value(int64_t{-1});
  return Value(static_cast<int64_t>(CountChars(std::string_view(text).substr(0, at))));
}

template <std::string (*kMap)(std::string_view)>
Result<Value> Mapped(const std::string& text, const Arguments&, Budget& budget) {
  NXDKIT_TRY(budget.Charge(text.size() * 4));  // slower than copying
  return Value(kMap(text));
}

// str.format() with {}, {0} and {name}, as text; other features of fields are not supported.
Result<Value> Format(const std::string& text, const Arguments& arguments, Budget& budget) {
  std::string out;
  size_t next = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at++];
    if (c != '{' && c != '}') {
      out += c;
      continue;
    }
    if (at < text.size() && text[at] == c) {  // {{ is {
      out += text[at++];
      continue;
    }
    const size_t end = text.find('}', at);
    if (c == '}' || end == std::string::npos) return Corrupt("format() of a single '{}'", c);
    const std::string field = text.substr(at, end - at);
    at = end + 1;
    if (field.find_first_of("{!:.[") != std::string::npos)
      return Unsupported("the field '{}' of format()", field);
    const std::optional<size_t> place =
        field.empty() ? std::optional(next++) : ParseNumber<size_t>(field);
    const Value* value = place && *place < arguments.values.size() ? &arguments.values[*place]
                         : place                                   ? nullptr
                                                                   : Find(arguments.named, field);
    if (value == nullptr) return Corrupt("format() has no argument '{}'", field);
    NXDKIT_ASSIGN(const std::string shown, ToText(*value, budget));
    NXDKIT_TRY(budget.Charge(shown.size()));
    out += shown;
  }
  return Value(std::move(out));
}

// str.title(): in every run of letters the first is upper case, the others lower.
Result<Value> Title(const std::string& text, const Arguments&, Budget& budget) {
  NXDKIT_TRY(budget.Charge(text.size() * 16));
  std::string out;
  bool inside = false;
  for (const std::string_view point : Points(text)) {
    const std::string lower = PythonLower(point), upper = PythonUpper(point);
    const bool cased = lower != upper;
    out += !cased ? std::string(point) : inside ? lower : PythonTitle(point);
    inside = cased;
  }
  return Value(std::move(out));
}

struct TextRow {
  std::string_view name;
  TextMethod method;
  Parameters takes = {};
  bool keeps_markup = false;  // for text that is marked as safe
};
constexpr TextRow kTextMethods[] = {
    {"startswith", HasEnd<true>, {1}},
    {"endswith", HasEnd<false>, {1}},
    {"strip", StripMethod<true, true>, {1}},
    {"lstrip", StripMethod<true, false>, {1}},
    {"rstrip", StripMethod<false, true>, {1}},
    {"split", Split, {2, {"sep", "maxsplit"}}},
    {"replace", ReplaceMethod, {3, {"count"}}},
    {"find", FindMethod, {1}},
    {"upper", Mapped<PythonUpper>, {}, true},
    {"lower", Mapped<PythonLower>, {}, true},
    {"capitalize", Mapped<Capitalize>, {}, true},
    {"title", Title, {}, true},
    {"format", Format},
};
constexpr std::string_view kDictMethods[] = {"items", "keys", "values", "get"};
// Python's other methods: their names are not to be taken for missing attributes.
constexpr std::string_view kOtherDictMethods[] = {"clear",   "copy",       "fromkeys", "pop",
                                                  "popitem", "setdefault", "update"};
constexpr std::string_view kListMethods[] = {"append", "clear",   "copy",   "count",
                                             "extend", "index",   "insert", "pop",
                                             "remove", "reverse", "sort"};
constexpr std::string_view kSequenceMethods[] = {"count", "index",   "start",     "stop",
                                                 "step",  "mapping", "isdisjoint"};
constexpr std::string_view kNumberMethods[] = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
    "from_bytes",       "fromhex",   "hex",        "imag",      "is_integer",
    "numerator",        "real",      "to_bytes"};
constexpr std::string_view kStrMethods[] = {
    "capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
    "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
    "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
    "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
    "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
    "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
    "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
    "swapcase",     "title",       "translate", "upper",      "zfill"};

Result<Value> CallDict(const Dict& dict, std::string_view name, const Arguments& arguments,
                       Budget& budget) {
  NXDKIT_TRY(
      budget.Charge(dict.size() * (name == "get" ? Budget::kItemBytes : Budget::kOwnerBytes)));
  if (name == "get") {
    NXDKIT_TRY(arguments.Allow({2}));
    if (arguments.values.empty()) return Corrupt("get() needs a key");
    const std::optional<Key> key = Key::Of(arguments.values[0]);
    const Value* found = key ? FindKey(dict, *key) : nullptr;
    if (found != nullptr) return *found;
    return arguments.values.size() > 1 ? arguments.values[1] : Value();
  }
  NXDKIT_TRY(arguments.Allow({}));
  List list;
  for (const auto& [key, value] : dict) {
    if (name == "items")
      list.push_back(Value(List{key.value(), value}, Form::kTuple));
    else
      list.push_back(name == "keys" ? key.value() : value);
  }
  const Form form = name == "items" ? Form::kItems : name == "keys" ? Form::kKeys : Form::kValues;
  return Value(std::move(list), form);
}

}  // namespace

Result<Value> MakeRange(const Arguments& arguments, Budget& budget) {
  NXDKIT_TRY(arguments.Allow({3}));
  std::vector<int64_t> numbers;
  for (const Value& value : arguments.values) {
    if (!value.integer()) return Corrupt("range of {}", TypeName(value));
    numbers.push_back(*value.integer());
  }
  if (numbers.empty()) return Corrupt("range() needs an argument");
  const int64_t begin = numbers.size() == 1 ? 0 : numbers[0];
  const int64_t end = numbers.size() == 1 ? numbers[0] : numbers[1];
  const int64_t step = numbers.size() == 3 ? numbers[2] : 1;
  if (step == 0) return Corrupt("range() by steps of 0");
  List list;
  for (__int128 i = begin; step > 0 ? i < end : i > end; i += step) {
    NXDKIT_TRY(budget.Charge(Budget::kItemBytes));
    if (static_cast<int64_t>(list.size()) == kMaxRange)
      return OverLimit("range of more than {} numbers", kMaxRange);
    list.push_back(static_cast<int64_t>(i));
  }
  return Value(std::move(list), Form::kRange);
}

Result<Value> FormatTime(const Arguments& arguments, int64_t now) {
  NXDKIT_TRY(arguments.Allow({1, {"format"}}));
  NXDKIT_ASSIGN(const auto format, arguments.Text(0, "format"));
  if (!format || format->empty() || format->size() > kMaxFormatBytes)
    return Corrupt("strftime_now() needs a format of 1 to {} bytes", kMaxFormatBytes);
  const auto seconds = static_cast<std::time_t>(now);
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return Corrupt("{} is not a time", now);
  char text[4096];
  return Value(std::string(text, std::strftime(text, sizeof text, format->c_str(), &parts)));
}

Error RaisedError(const Arguments& arguments, Budget& budget) {
  if (Status status = arguments.Allow({1, {"message"}}); !status.ok())
    return std::move(status).error();
  const Value* message = arguments.Get(0, "message");
  const Result<std::string> text =
      message == nullptr ? Result<std::string>("") : ToText(*message, budget);
  if (!text.ok()) return text.error();
  return Corrupt("the template says: {}", *text);
}

bool IsMethod(const Value& object, std::string_view name) {
  const auto is_among = [&](const auto& names) {
    return std::ranges::find(names, name) != std::end(names);
  };
  if (object.dict() != nullptr) return is_among(kDictMethods) || is_among(kOtherDictMethods);
  if (object.text() != nullptr) return is_among(kStrMethods);
  if (object.form() == Form::kPlain && object.list() != nullptr) return is_among(kListMethods);
  if (object.list() != nullptr) return is_among(kSequenceMethods);
  return object.number() && is_among(kNumberMethods);
}

Result<Value> CallMethod(const Value& object, std::string_view name, const Arguments& arguments,
                         Budget& budget) {
  if (const Undefined* undefined = object.undefined())
    return Corrupt("'{}' is undefined", *undefined->name);
  if (const std::string* text = object.text()) {
    const auto* row = std::ranges::find(kTextMethods, name, &TextRow::name);
    if (row != std::end(kTextMethods)) {
      NXDKIT_TRY(budget.Charge(text->size()));
      if (row->method != Format) NXDKIT_TRY(arguments.Allow(row->takes));
      NXDKIT_ASSIGN(Value out, row->method(*text, arguments, budget));
      if (!object.is_markup() || (out.text() == nullptr && out.list() == nullptr)) return out;
      if (row->keeps_markup) return Value(*out.text(), Form::kMarkup);
      return Unsupported("the method '{}' of {}", name, TypeName(object));
    }
  }
  if (const Dict* dict = object.dict()) {
    if (std::ranges::find(kDictMethods, name) != std::end(kDictMethods))
      return CallDict(*dict, name, arguments, budget);
  }
  return Unsupported("the method '{}' of {} is not known", name, TypeName(object));
}

}  // namespace nxdkit::trainer::jinja
