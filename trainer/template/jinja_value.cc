#include "trainer/template/jinja_value.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lib/base/utf8.h"
#include "lib/json/json.h"
#include "trainer/template/jinja_builtins.h"
#include "trainer/template/jinja_text.h"
#include "trainer/text/characters.h"

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

class TextWriter {
 public:
  explicit TextWriter(Budget& budget) : budget_(budget) {}

  Status Append(const Value& value, int depth) {
    NXDKIT_TRY(budget_.Charge(value.text() == nullptr ? 0 : value.text()->size()));
    if (depth > kMaxDepth) return TooDeep();
    if (value.undefined() != nullptr) return OkStatus();
    if (value.list() != nullptr) return AppendList(*value.list(), depth);
    if (value.dict() != nullptr) return AppendDict(*value.dict(), depth);
    if (value.is_none())
      out_ += "None";
    else if (value.boolean() != nullptr)
      out_ += *value.boolean() ? "True" : "False";
    else if (value.integer())
      out_ += std::to_string(*value.integer());
    else if (value.is_float())
      out_ += FloatText(*value.number());
    else if (value.text() != nullptr)
      out_ += *value.text();
    else
      return Error(Errc::kUnsupported, fmt::format("{} as text", TypeName(value)));
    return OkStatus();
  }

  std::string Take() { return std::move(out_); }

 private:
  Status AppendRepr(const Value& value, int depth) {
    if (value.text() == nullptr) return Append(value, depth);
    NXDKIT_TRY(budget_.Charge(value.text()->size()));
    AppendPythonRepr(*value.text(), &out_);
    return OkStatus();
  }

  Status AppendList(const List& list, int depth) {
    out_ += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out_ += ", ";
      NXDKIT_TRY(AppendRepr(list[i], depth + 1));
    }
    out_ += ']';
    return OkStatus();
  }

  Status AppendDict(const Dict& dict, int depth) {
    out_ += '{';
    for (size_t i = 0; i < dict.size(); ++i) {
      if (i > 0) out_ += ", ";
      NXDKIT_TRY(budget_.Charge(dict[i].first.size()));
      AppendPythonRepr(dict[i].first, &out_);
      out_ += ": ";
      NXDKIT_TRY(AppendRepr(dict[i].second, depth + 1));
    }
    out_ += '}';
    return OkStatus();
  }

  Budget& budget_;
  std::string out_;
};

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {
    items_ = !style.item_separator.empty() ? style.item_separator : style.indent ? "," : ", ";
    keys_ = style.key_separator.empty() ? ": " : style.key_separator;
  }

  Status Append(const Value& value, int depth) {
    NXDKIT_TRY(budget_.Charge(value.text() == nullptr ? 0 : value.text()->size()));
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
  Status NewLine(int depth) {
    if (!style_.indent) return OkStatus();
    const auto spaces = static_cast<size_t>(std::clamp<int64_t>(*style_.indent, 0, 100) * depth);
    NXDKIT_TRY(budget_.Charge(spaces));
    out_.append("\n").append(spaces, ' ');
    return OkStatus();
  }

  Status AppendList(const List& list, int depth) {
    out_ += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out_ += items_;
      NXDKIT_TRY(NewLine(depth + 1));
      NXDKIT_TRY(Append(list[i], depth + 1));
    }
    if (!list.empty()) NXDKIT_TRY(NewLine(depth));
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
      NXDKIT_TRY(NewLine(depth + 1));
      NXDKIT_TRY(budget_.Charge(rows[i]->first.size()));
      AppendJsonString(rows[i]->first, style_.ensure_ascii, &out_);
      out_ += keys_;
      NXDKIT_TRY(Append(rows[i]->second, depth + 1));
    }
    if (!dict.empty()) NXDKIT_TRY(NewLine(depth));
    out_ += '}';
    return OkStatus();
  }

  const JsonStyle& style_;
  Budget& budget_;
  std::string items_;
  std::string keys_;
  std::string out_;
};

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

Result<std::string> ToText(const Value& value, Budget& budget) {
  TextWriter writer(budget);
  NXDKIT_TRY(writer.Append(value, 0));
  return writer.Take();
}

Result<std::string> ToJson(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonWriter writer(style, budget);
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
  std::vector<std::string_view> taken = chars ? Points(*chars) : std::vector<std::string_view>();
  std::ranges::sort(taken);  // both may be long
  const auto goes = [&](std::string_view point) {
    if (chars) return std::ranges::binary_search(taken, point);
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
