#include <fmt/core.h>
#include <utf8proc.h>

#include <algorithm>

#include "lib/base/utf8.h"
#include "trainer/template/jinja_builtins.h"
#include "trainer/template/jinja_text.h"

namespace nxdkit::trainer::jinja {
namespace {

using TextMethod = Result<Value> (*)(const std::string& text, const Arguments& arguments,
                                     Budget& budget);

// startswith and endswith take a str, or a list of them of which one is enough.
Result<Value> HasEnd(const std::string& text, const Arguments& arguments, bool front,
                     Budget& budget) {
  NXDKIT_TRY(arguments.Allow(1));
  const Value* wanted = arguments.Get(0, "");
  if (wanted == nullptr) return Error(Errc::kCorrupt, "an argument is missing");
  const List list = wanted->list() != nullptr ? *wanted->list() : List{*wanted};
  NXDKIT_TRY(budget.Charge(list.size() * 16));
  for (const Value& item : list) {
    if (item.text() == nullptr)
      return Error(Errc::kCorrupt, fmt::format("found {}, expected a str", TypeName(item)));
    if (front ? text.starts_with(*item.text()) : text.ends_with(*item.text())) return Value(true);
  }
  return Value(false);
}
Result<Value> StartsWith(const std::string& text, const Arguments& arguments, Budget& budget) {
  return HasEnd(text, arguments, true, budget);
}
Result<Value> EndsWith(const std::string& text, const Arguments& arguments, Budget& budget) {
  return HasEnd(text, arguments, false, budget);
}

template <bool kLeft, bool kRight>
Result<Value> StripMethod(const std::string& text, const Arguments& arguments, Budget&) {
  NXDKIT_TRY(arguments.Allow(1));
  NXDKIT_ASSIGN(const std::optional<std::string> chars, arguments.Text(0, "chars"));
  return Value(std::string(Strip(text, chars, kLeft, kRight)));
}

bool IsSpace(std::string_view point) {
  const std::optional<CodePoint> decoded = DecodeUtf8(point, 0);
  return decoded && IsPythonSpace(decoded->value);
}

// str.split() without a separator: by runs of white space, with none at the ends; what is behind
// the last cut keeps its own.
List SplitAtSpace(std::string_view text, int64_t most) {
  List parts;
  text = Strip(text, std::nullopt, true, false);
  std::string word;
  size_t at = 0;
  for (const std::string_view point : Points(text)) {
    const bool space = IsSpace(point);
    const bool is_full = most >= 0 && static_cast<int64_t>(parts.size()) >= most;
    if (!space && is_full && word.empty()) {
      parts.push_back(std::string(text.substr(at)));
      return parts;
    }
    if (!space) {
      word += point;
    } else if (!word.empty()) {
      parts.push_back(std::exchange(word, std::string()));
    }
    at += point.size();
  }
  if (!word.empty()) parts.push_back(std::move(word));
  return parts;
}

Result<Value> Split(const std::string& text, const Arguments& arguments, Budget& budget) {
  NXDKIT_TRY(arguments.Allow(2, {"sep", "maxsplit"}));
  NXDKIT_ASSIGN(const std::optional<std::string> separator, arguments.Text(0, "sep"));
  const Value* limit = arguments.Get(1, "maxsplit");
  if (limit != nullptr && !limit->integer())
    return Error(Errc::kCorrupt, fmt::format("maxsplit is {}, expected an int", TypeName(*limit)));
  const int64_t most = limit == nullptr ? -1 : *limit->integer();
  if (!separator) return Value(SplitAtSpace(text, most));
  if (separator->empty()) return Error(Errc::kCorrupt, "split() by an empty separator");
  List parts;
  size_t begin = 0;
  for (;;) {
    NXDKIT_TRY(budget.Charge());
    const bool is_full = most >= 0 && static_cast<int64_t>(parts.size()) == most;
    const size_t end = is_full ? std::string::npos : text.find(*separator, begin);
    parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) return Value(std::move(parts));
    begin = end + separator->size();
  }
}

Result<Value> ReplaceMethod(const std::string& text, const Arguments& arguments, Budget& budget) {
  NXDKIT_TRY(arguments.Allow(3, {"count"}));
  NXDKIT_ASSIGN(const auto from, arguments.Text(0, "old"));
  NXDKIT_ASSIGN(const auto to, arguments.Text(1, "new"));
  if (!from || !to) return Error(Errc::kCorrupt, "replace() needs two arguments");
  const Value* count = arguments.Get(2, "count");
  NXDKIT_ASSIGN(
      std::string out,
      Replace(text, *from, *to, count == nullptr ? -1 : count->integer().value_or(-1), budget));
  return Value(std::move(out));
}

Result<Value> FindMethod(const std::string& text, const Arguments& arguments, Budget& budget) {
  NXDKIT_TRY(arguments.Allow(1));
  NXDKIT_TRY(budget.Charge(text.size()));
  NXDKIT_ASSIGN(const auto wanted, arguments.Text(0, "sub"));
  if (!wanted) return Error(Errc::kCorrupt, "an argument is missing");
  const size_t at = text.find(*wanted);
  if (at == std::string::npos) return Value(int64_t{-1});
  return Value(static_cast<int64_t>(CountPoints(std::string_view(text).substr(0, at))));
}

Result<Value> Upper(const std::string& text, const Arguments& arguments, Budget&) {
  NXDKIT_TRY(arguments.Allow(0));
  return Value(ToUpper(text));
}
Result<Value> Lower(const std::string& text, const Arguments& arguments, Budget&) {
  NXDKIT_TRY(arguments.Allow(0));
  return Value(ToLower(text));
}
Result<Value> CapitalizeMethod(const std::string& text, const Arguments& arguments, Budget&) {
  NXDKIT_TRY(arguments.Allow(0));
  return Value(Capitalize(text));
}

struct TextRow {
  std::string_view name;
  TextMethod method;
};
constexpr TextRow kTextMethods[] = {
    {"startswith", StartsWith},
    {"endswith", EndsWith},
    {"strip", StripMethod<true, true>},
    {"lstrip", StripMethod<true, false>},
    {"rstrip", StripMethod<false, true>},
    {"split", Split},
    {"replace", ReplaceMethod},
    {"find", FindMethod},
    {"upper", Upper},
    {"lower", Lower},
    {"capitalize", CapitalizeMethod},
};
constexpr std::string_view kDictMethods[] = {"items", "keys", "values", "get"};
// They change the dict, which a template may not.
constexpr std::string_view kRefusedDictMethods[] = {"clear",   "copy",       "fromkeys", "pop",
                                                    "popitem", "setdefault", "update"};

Result<Value> CallDict(const Dict& dict, std::string_view name, const Arguments& arguments,
                       Budget& budget) {
  NXDKIT_TRY(budget.Charge(dict.size() * 16));
  if (name == "get") {
    NXDKIT_TRY(arguments.Allow(2));
    if (arguments.values.empty()) return Error(Errc::kCorrupt, "get() needs a key");
    const std::string* key = arguments.values[0].text();
    const Value* found = key == nullptr ? nullptr : Find(dict, *key);
    if (found != nullptr) return *found;
    return arguments.values.size() > 1 ? arguments.values[1] : Value();
  }
  NXDKIT_TRY(arguments.Allow(0));
  List list;
  for (const auto& [key, value] : dict) {
    if (name == "items")
      list.push_back(List{key, value});
    else
      list.push_back(name == "keys" ? Value(key) : value);
  }
  return Value(std::move(list));
}

template <typename Map>
std::string MapPoints(std::string_view text, Map map) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const std::optional<CodePoint> point = DecodeUtf8(text, i);
    AppendUtf8(static_cast<uint32_t>(map(static_cast<int32_t>(point ? point->value : '?'))), &out);
    i += point ? static_cast<size_t>(point->bytes) : 1;
  }
  return out;
}

}  // namespace

std::string ToUpper(std::string_view text) { return MapPoints(text, utf8proc_toupper); }
std::string ToLower(std::string_view text) { return MapPoints(text, utf8proc_tolower); }
std::string Capitalize(std::string_view text) {
  if (text.empty()) return {};
  const size_t first = Points(text.substr(0, 4)).front().size();
  return MapPoints(text.substr(0, first), utf8proc_totitle) + ToLower(text.substr(first));
}

Result<std::string> Replace(std::string_view text, std::string_view from, std::string_view to,
                            int64_t most, Budget& budget) {
  if (from.empty()) return Error(Errc::kUnsupported, "the replacement of an empty text");
  std::string out;
  size_t begin = 0;
  for (int64_t done = 0; most < 0 || done < most; ++done) {
    const size_t at = text.find(from, begin);
    if (at == std::string_view::npos) break;
    NXDKIT_TRY(budget.Charge(at - begin + to.size()));
    out.append(text.substr(begin, at - begin)).append(to);
    begin = at + from.size();
  }
  NXDKIT_TRY(budget.Charge(text.size() - begin));
  return out.append(text.substr(begin));
}

bool IsMethod(const Value& object, std::string_view name) {
  if (object.dict() != nullptr)
    return std::ranges::find(kDictMethods, name) != std::end(kDictMethods) ||
           std::ranges::find(kRefusedDictMethods, name) != std::end(kRefusedDictMethods);
  if (object.text() == nullptr) return false;
  return std::ranges::find(kTextMethods, name, &TextRow::name) != std::end(kTextMethods);
}

Result<Value> CallMethod(const Value& object, std::string_view name, const Arguments& arguments,
                         Budget& budget) {
  if (const Undefined* undefined = object.undefined())
    return Error(Errc::kCorrupt, fmt::format("'{}' is undefined", *undefined->name));
  if (const std::string* text = object.text()) {
    const auto* row = std::ranges::find(kTextMethods, name, &TextRow::name);
    if (row != std::end(kTextMethods)) {
      NXDKIT_TRY(budget.Charge(text->size()));
      return row->method(*text, arguments, budget);
    }
  }
  if (const Dict* dict = object.dict()) {
    if (std::ranges::find(kDictMethods, name) != std::end(kDictMethods))
      return CallDict(*dict, name, arguments, budget);
  }
  return Error(Errc::kUnsupported,
               fmt::format("the method '{}' of {} is not known", name, TypeName(object)));
}

}  // namespace nxdkit::trainer::jinja
