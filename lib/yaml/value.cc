#include "lib/yaml/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lib/base/text.h"
#include "lib/json/json.h"

namespace nxdkit {
namespace {

constexpr std::string_view kYes[] = {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"};
constexpr std::string_view kNo[] = {"false", "False", "FALSE", "no", "No",
                                    "NO",    "off",   "Off",   "OFF"};

// Takes the text without its sign: begins with a digit, or a point and a digit, and has no leading
// zero.
bool LooksNumeric(std::string_view text) {
  if (text.empty()) return false;
  if (text[0] == '.') return text.size() > 1 && IsDigit(text[1]);
  if (!IsDigit(text[0])) return false;
  return !(text[0] == '0' && text.size() > 1 && IsDigit(text[1]));
}

void ResolveNumber(Value& value) {
  std::string_view text = value.text;
  const bool plus = text.starts_with('+');
  if (plus) text.remove_prefix(1);
  std::string_view digits = text;
  if (!plus && digits.starts_with('-')) digits.remove_prefix(1);
  if (!LooksNumeric(digits)) return;
  if (const auto whole = ParseNumber<int64_t>(text)) {
    value.kind = ValueKind::kInt;
    value.integer = *whole;
    value.number = static_cast<double>(*whole);
  } else if (const auto real = ParseNumber<double>(text); real && std::isfinite(*real)) {
    value.kind = ValueKind::kDouble;
    value.number = *real;
  }
}

template <typename Items, typename Write>
std::string Joined(const Items& items, char open, char close, Write write) {
  std::string text(1, open);
  for (const auto& item : items) {
    if (text.size() > 1) text += ", ";
    text += write(item);
  }
  return text + close;
}

}  // namespace

std::string_view ValueKindText(ValueKind kind) {
  constexpr std::string_view kTexts[] = {"null",     "a boolean", "an integer", "a number",
                                         "a string", "a list",    "a map"};
  return kTexts[static_cast<size_t>(kind)];
}

Value Value::Map() {
  Value value;
  value.kind = ValueKind::kMap;
  return value;
}

const Value* Value::Find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &ValueEntry::key);
  return found == entries.end() ? nullptr : &found->value;
}

Value ResolveScalar(std::string text) {
  Value value;
  value.text = std::move(text);
  const std::string& word = value.text;
  if (word.empty() || word == "~" || word == "null" || word == "Null" || word == "NULL")
    return value;
  value.kind = ValueKind::kString;
  value.boolean = std::ranges::count(kYes, word) > 0;
  if (value.boolean || std::ranges::count(kNo, word) > 0) {
    value.kind = ValueKind::kBool;
  } else {
    ResolveNumber(value);
  }
  return value;
}

// The reader of the document bounds the depth.
void MergeValue(Value& into, const Value& from) {
  if (into.kind != ValueKind::kMap || from.kind != ValueKind::kMap) {
    into = from;
    return;
  }
  for (const ValueEntry& entry : from.entries) {
    const auto found = std::ranges::find(into.entries, entry.key, &ValueEntry::key);
    if (found == into.entries.end())
      into.entries.push_back(entry);
    else
      MergeValue(found->value, entry.value);
  }
}

std::string NumberText(double number) {
  std::string text = PythonFloat(number);
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

namespace {

// The character of an escaped pair of surrogates, in UTF-8.
std::string Utf8OfPair(std::string_view high, std::string_view low) {
  const auto hex = [](std::string_view digits) {
    uint32_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return value;
  };
  const uint32_t code = 0x10000 + ((hex(high) - 0xd800) << 10) + (hex(low) - 0xdc00);
  return {static_cast<char>(0xf0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 0x3f)),
          static_cast<char>(0x80 | (code >> 6 & 0x3f)), static_cast<char>(0x80 | (code & 0x3f))};
}

}  // namespace

// JSON escapes a character above U+FFFF as two surrogates, which YAML refuses: both read the
// character itself.
std::string QuotedText(std::string_view text) {
  const std::string json = Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
  constexpr size_t kEscape = 6;  // \uXXXX
  std::string out;
  for (size_t at = 0; at < json.size();) {
    if (json.compare(at, 3, "\\ud") == 0 && json.find_first_of("89ab", at + 3) == at + 3) {
      out += Utf8OfPair(std::string_view(json).substr(at + 2, 4),
                        std::string_view(json).substr(at + kEscape + 2, 4));
      at += 2 * kEscape;
      continue;
    }
    const size_t taken = json[at] == '\\' ? 2 : 1;
    out.append(json, at, taken);
    at += taken;
  }
  return out;
}

std::string ValueText(const Value& value) {
  switch (value.kind) {
    case ValueKind::kNull:
      return "null";
    case ValueKind::kBool:
      return value.boolean ? "true" : "false";
    case ValueKind::kInt:
      return std::to_string(value.integer);
    case ValueKind::kDouble:
      return NumberText(value.number);
    case ValueKind::kString:
      return QuotedText(value.text);
    case ValueKind::kList:
      return Joined(value.items, '[', ']', ValueText);
    case ValueKind::kMap:
      return Joined(value.entries, '{', '}', [](const ValueEntry& entry) {
        return QuotedText(entry.key) + ": " + ValueText(entry.value);
      });
  }
  return "";
}

}  // namespace nxdkit
