#include "lib/json/json.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/errors.h"
#include "lib/base/utf8.h"

namespace nxdkit {
namespace {

// DumpPython's input has been parsed (128 levels at most) or built by us.
constexpr size_t kMaxDumpDepth = 1000;

// json.dumps with ensure_ascii: all but printable ASCII is escaped.
void AppendString(const std::string& text, std::string* out) {
  *out += '"';
  for (size_t i = 0; i < text.size();) {
    const std::optional<CodePoint> decoded = DecodeUtf8(text, i);
    const uint32_t point = decoded ? decoded->value : 0xdc00u + static_cast<uint8_t>(text[i]);
    i += decoded ? static_cast<size_t>(decoded->bytes) : 1;
    constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
    constexpr std::string_view kLetters = "\"\\bfnrt";
    const size_t short_form = point < 0x80 ? kShort.find(static_cast<char>(point)) : kShort.npos;
    if (short_form != kShort.npos) {
      *out += '\\';
      *out += kLetters[short_form];
    } else if (point >= 0x20 && point < 0x7f) {
      *out += static_cast<char>(point);
    } else if (point < 0x10000) {
      *out += fmt::format("\\u{:04x}", point);
    } else {
      *out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((point - 0x10000) >> 10),
                          0xdc00 + ((point - 0x10000) & 0x3ff));
    }
  }
  *out += '"';
}

using Pair = Json::object_t::value_type;

std::vector<const Pair*> Pairs(const Json& object, bool sort_keys) {
  std::vector<const Pair*> pairs;
  for (const Pair& pair : object.get_ref<const Json::object_t&>()) pairs.push_back(&pair);
  // Python orders by code point, which is the order of the UTF-8 bytes.
  if (sort_keys) std::ranges::sort(pairs, {}, &Pair::first);
  return pairs;
}

void NewLine(size_t depth, std::string* out) { out->append(1, '\n').append(2 * depth, ' '); }

// `[` or `{`, the items with a comma and a new line each, and the closing bracket.
template <typename Items, typename AppendItem>
void AppendItems(const char* brackets, const Items& items, size_t depth, std::string* out,
                 const AppendItem& append) {
  *out += brackets[0];
  const char* separator = "";
  for (const auto& item : items) {
    *out += separator;
    separator = ",";
    NewLine(depth + 1, out);
    append(item);
  }
  if (!items.empty()) NewLine(depth, out);
  *out += brackets[1];
}

void Append(const Json& value, bool sort_keys, size_t depth, std::string* out) {
  NXDKIT_CHECK(depth < kMaxDumpDepth);
  if (value.is_object())
    return AppendItems("{}", Pairs(value, sort_keys), depth, out, [&](const Pair* pair) {
      AppendString(pair->first, out);
      *out += ": ";
      Append(pair->second, sort_keys, depth + 1, out);
    });
  if (value.is_array())
    return AppendItems("[]", value, depth, out,
                       [&](const Json& item) { Append(item, sort_keys, depth + 1, out); });
  if (value.is_string()) return AppendString(value.get_ref<const std::string&>(), out);
  *out += value.is_number_float() ? PythonFloat(value.get<double>()) : value.dump();
}

Result<const Json*> Member(const Json& object, std::string_view key,
                           bool (Json::*is_type)() const noexcept, std::string_view type) {
  const auto wrong = [&](std::string message) {
    return Error(Errc::kCorrupt, std::move(message)).member(key);
  };
  if (!object.is_object())
    return wrong(fmt::format("found {} around this key, expected an object", JsonTypeText(object)));
  const auto found = object.find(std::string(key));
  if (found == object.end()) return wrong(fmt::format("the key is missing, expected {}", type));
  if (!((*found).*is_type)())
    return wrong(fmt::format("found {}, expected {}", JsonTypeText(*found), type));
  return &*found;
}

}  // namespace

std::string DumpPython(const Json& value, bool sort_keys) {
  std::string text;
  Append(value, sort_keys, 0, &text);
  return text;
}

std::string PythonFloat(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  // The shortest digits that read back: d[.ddd]e[+-]xx. Then laid out as CPython's repr does: plain
  // for exponents -4 to 15.
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, std::abs(value), std::chars_format::scientific)
          .ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  std::string sign = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) return sign.append(text);  // both write e-06 and e+16

  std::string digits(text.substr(0, e));
  std::erase(digits, '.');
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() < whole + 1) digits.append(whole + 1 - digits.size(), '0');
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

Result<std::string> JsonString(const Json& object, std::string_view key) {
  NXDKIT_ASSIGN(const Json* value, Member(object, key, &Json::is_string, "a string"));
  return value->get<std::string>();
}

Result<int64_t> JsonInt(const Json& object, std::string_view key) {
  NXDKIT_ASSIGN(const Json* value, Member(object, key, &Json::is_number_integer, "an integer"));
  if (value->is_number_unsigned() && !std::in_range<int64_t>(value->get<uint64_t>()))
    return Corrupt("{} is over the limit of {}", value->get<uint64_t>(),
                   std::numeric_limits<int64_t>::max())
        .member(key);
  return value->get<int64_t>();
}

Result<double> JsonDouble(const Json& object, std::string_view key) {
  NXDKIT_ASSIGN(const Json* value, Member(object, key, &Json::is_number, "a number"));
  return value->get<double>();
}

Result<bool> JsonBool(const Json& object, std::string_view key) {
  NXDKIT_ASSIGN(const Json* value, Member(object, key, &Json::is_boolean, "true or false"));
  return value->get<bool>();
}

Result<const Json*> JsonArray(const Json& object, std::string_view key) {
  return Member(object, key, &Json::is_array, "an array");
}

Result<const Json*> JsonObject(const Json& object, std::string_view key) {
  return Member(object, key, &Json::is_object, "an object");
}

const Json* JsonFind(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(key));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string_view JsonTypeText(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_integer()) return "an integer";
  if (value.is_number_float()) return "a floating point number";
  return value.is_null() ? "null" : "nothing";
}

std::string JsonExcerpt(const Json& value) {
  constexpr size_t kMost = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMost) text.replace(kMost, std::string::npos, "...");
  return text;
}

}  // namespace nxdkit
