#include "trainer/tokenizer/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/json.h"
#include "lib/utf8.h"
#include "trainer/tokenizer/characters.h"
#include "trainer/tokenizer/jinja_text.h"

namespace nxdkit::trainer::jinja {
namespace {

constexpr int kMaxDepth = 100;

Error TooDeep() {
  return Error(Errc::kLimit, fmt::format("a value is nested deeper than {} levels", kMaxDepth));
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return PythonFloat(value);
}

Status AppendText(const Value& value, int depth, std::string* out);

Status AppendRepr(const Value& value, int depth, std::string* out) {
  if (value.text() == nullptr) return AppendText(value, depth, out);
  AppendPythonRepr(*value.text(), out);
  return OkStatus();
}

Status AppendText(const Value& value, int depth, std::string* out) {
  if (depth > kMaxDepth) return TooDeep();
  if (value.undefined() != nullptr) {
    return OkStatus();
  } else if (value.is_none()) {
    *out += "None";
  } else if (value.boolean() != nullptr) {
    *out += *value.boolean() ? "True" : "False";
  } else if (value.integer()) {
    *out += std::to_string(*value.integer());
  } else if (value.is_float()) {
    *out += FloatText(*value.number());
  } else if (value.text() != nullptr) {
    *out += *value.text();
  } else if (const List* list = value.list()) {
    *out += '[';
    for (size_t i = 0; i < list->size(); ++i) {
      if (i > 0) *out += ", ";
      NXDKIT_TRY(AppendRepr((*list)[i], depth + 1, out));
    }
    *out += ']';
  } else if (const Dict* dict = value.dict()) {
    *out += '{';
    for (size_t i = 0; i < dict->size(); ++i) {
      if (i > 0) *out += ", ";
      AppendPythonRepr((*dict)[i].first, out);
      *out += ": ";
      NXDKIT_TRY(AppendRepr((*dict)[i].second, depth + 1, out));
    }
    *out += '}';
  } else {
    return Error(Errc::kUnsupported, fmt::format("{} as text", TypeName(value)));
  }
  return OkStatus();
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {
    items_ = !style.item_separator.empty() ? style.item_separator : style.indent ? "," : ", ";
    keys_ = style.key_separator.empty() ? ": " : style.key_separator;
  }

  Status Append(const Value& value, int depth) {
    if (depth > kMaxDepth) return TooDeep();
    if (value.is_none()) {
      out_ += "null";
    } else if (value.boolean() != nullptr) {
      out_ += *value.boolean() ? "true" : "false";
    } else if (value.integer()) {
      out_ += std::to_string(*value.integer());
    } else if (value.is_float()) {
      out_ += PythonFloat(*value.number());
    } else if (value.text() != nullptr) {
      AppendJsonString(*value.text(), style_.ensure_ascii, &out_);
    } else if (value.list() != nullptr) {
      return AppendList(*value.list(), depth);
    } else if (value.dict() != nullptr) {
      return AppendDict(*value.dict(), depth);
    } else {
      return Error(Errc::kCorrupt, fmt::format("{} is not JSON", TypeName(value)));
    }
    return OkStatus();
  }

  std::string Take() { return std::move(out_); }

 private:
  void NewLine(int depth) {
    if (!style_.indent) return;
    out_ += '\n';
    out_.append(static_cast<size_t>(std::clamp<int64_t>(*style_.indent, 0, 100) * depth), ' ');
  }

  Status AppendList(const List& list, int depth) {
    out_ += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out_ += items_;
      NewLine(depth + 1);
      NXDKIT_TRY(Append(list[i], depth + 1));
    }
    if (!list.empty()) NewLine(depth);
    out_ += ']';
    return OkStatus();
  }

  Status AppendDict(const Dict& dict, int depth) {
    std::vector<const std::pair<std::string, Value>*> rows;
    for (const auto& row : dict) rows.push_back(&row);
    if (style_.sort_keys)
      std::ranges::stable_sort(rows, [](auto* a, auto* b) { return a->first < b->first; });
    out_ += '{';
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i > 0) out_ += items_;
      NewLine(depth + 1);
      AppendJsonString(rows[i]->first, style_.ensure_ascii, &out_);
      out_ += keys_;
      NXDKIT_TRY(Append(rows[i]->second, depth + 1));
    }
    if (!dict.empty()) NewLine(depth);
    out_ += '}';
    return OkStatus();
  }

  const JsonStyle& style_;
  std::string items_;
  std::string keys_;
  std::string out_;
};

bool EqualAt(const Value& a, const Value& b, int depth);

bool EqualLists(const List& a, const List& b, int depth) {
  return std::ranges::equal(
      a, b, [&](const Value& x, const Value& y) { return EqualAt(x, y, depth + 1); });
}

bool EqualDicts(const Dict& a, const Dict& b, int depth) {
  if (a.size() != b.size()) return false;
  return std::ranges::all_of(a, [&](const auto& row) {
    const Value* other = Find(b, row.first);
    return other != nullptr && EqualAt(row.second, *other, depth + 1);
  });
}

bool EqualAt(const Value& a, const Value& b, int depth) {
  if (depth > kMaxDepth) return false;
  if (a.integer() && b.integer()) return *a.integer() == *b.integer();
  if (a.number() && b.number()) return *a.number() == *b.number();
  if (a.text() != nullptr && b.text() != nullptr) return *a.text() == *b.text();
  if (a.list() != nullptr && b.list() != nullptr) return EqualLists(*a.list(), *b.list(), depth);
  if (a.dict() != nullptr && b.dict() != nullptr) return EqualDicts(*a.dict(), *b.dict(), depth);
  if (a.space() != nullptr) return a.space() == b.space();
  if (a.function() != nullptr) return a.function() == b.function();
  return (a.is_none() && b.is_none()) || (a.undefined() != nullptr && b.undefined() != nullptr);
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

bool Equal(const Value& a, const Value& b) { return EqualAt(a, b, 0); }

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

Result<std::string> ToText(const Value& value) {
  std::string text;
  NXDKIT_TRY(AppendText(value, 0, &text));
  return text;
}

Result<std::string> ToJson(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  NXDKIT_TRY(writer.Append(value, 0));
  return writer.Take();
}

size_t CountPoints(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::vector<std::string_view> Points(std::string_view text) {
  std::vector<std::string_view> points;
  for (size_t i = 0; i < text.size();) {
    const std::optional<CodePoint> point = DecodeUtf8(text, i);
    const size_t bytes = point ? static_cast<size_t>(point->bytes) : 1;
    points.push_back(text.substr(i, bytes));
    i += bytes;
  }
  return points;
}

bool IsPythonSpace(uint32_t point) {
  return (point >= 0x1c && point <= 0x1f) || IsWhiteSpace(point);
}

std::string_view Strip(std::string_view text, const std::optional<std::string>& chars, bool left,
                       bool right) {
  const std::vector<std::string_view> taken =
      chars ? Points(*chars) : std::vector<std::string_view>();
  const auto goes = [&](std::string_view point) {
    if (chars) return std::ranges::find(taken, point) != taken.end();
    const std::optional<CodePoint> decoded = DecodeUtf8(point, 0);
    return decoded && IsPythonSpace(decoded->value);
  };
  const std::vector<std::string_view> points = Points(text);
  size_t begin = 0, end = points.size();
  while (left && begin < end && goes(points[begin])) ++begin;
  while (right && end > begin && goes(points[end - 1])) --end;
  if (begin == end) return {};
  const size_t from = static_cast<size_t>(points[begin].data() - text.data());
  const size_t to =
      static_cast<size_t>(points[end - 1].data() - text.data()) + points[end - 1].size();
  return text.substr(from, to - from);
}

}  // namespace nxdkit::trainer::jinja
