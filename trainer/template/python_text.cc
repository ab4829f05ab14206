#include "trainer/template/python_text.h"

#include <fmt/core.h>
#include <utf8proc.h>

#include <algorithm>
#include <optional>

#include "lib/base/utf8.h"
#include "trainer/base/characters.h"

namespace nxdkit::trainer::jinja {
namespace {

// str.isprintable(): all but other and separator, and of these the space.
bool IsPrintable(uint32_t point) {
  if (point == ' ') return true;
  switch (utf8proc_category(static_cast<int32_t>(point))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return false;
    default:
      return true;
  }
}

std::string_view ShortEscape(uint32_t point) {
  switch (point) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\\':
      return "\\\\";
    default:
      return {};
  }
}

// Calls `each(value, bytes)` for every code point; a byte that begins none stands for itself.
template <typename Each>
void ForEachPoint(std::string_view text, Each each) {
  for (size_t i = 0; i < text.size();) {
    const std::optional<CodePoint> point = DecodeUtf8(text, i);
    const size_t bytes = point ? static_cast<size_t>(point->bytes) : 1;
    each(point ? point->value : static_cast<uint8_t>(text[i]), text.substr(i, bytes));
    i += bytes;
  }
}

}  // namespace

void AppendPythonRepr(std::string_view text, std::string* out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  *out += quote;
  ForEachPoint(text, [&](uint32_t point, std::string_view bytes) {
    const std::string_view escape = ShortEscape(point);
    if (!escape.empty())
      *out += escape;
    else if (point == static_cast<uint8_t>(quote))
      out->append("\\").append(bytes);
    else if (IsPrintable(point))
      *out += bytes;
    else if (point < 0x100)
      *out += fmt::format("\\x{:02x}", point);
    else
      *out += point < 0x10000 ? fmt::format("\\u{:04x}", point) : fmt::format("\\U{:08x}", point);
  });
  *out += quote;
}

void AppendJsonString(std::string_view text, bool ascii, std::string* out) {
  *out += '"';
  ForEachPoint(text, [&](uint32_t point, std::string_view bytes) {
    const std::string_view escape = ShortEscape(point);
    if (!escape.empty())
      *out += escape;
    else if (point == '"')
      *out += "\\\"";
    else if (point == '\b' || point == '\f')
      *out += point == '\b' ? "\\b" : "\\f";
    else if (point < 0x20 || (ascii && point > 0x7f && point < 0x10000))
      *out += fmt::format("\\u{:04x}", point);
    else if (ascii && point >= 0x10000)
      *out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((point - 0x10000) >> 10),
                          0xdc00 + ((point - 0x10000) & 0x3ff));
    else
      *out += bytes;
  });
  *out += '"';
}

std::vector<std::string_view> Points(std::string_view text) {
  std::vector<std::string_view> points;
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = CharBytes(text, i);
    points.push_back(text.substr(i, bytes));
    i += bytes;
  }
  return points;
}

std::string_view Strip(std::string_view text, const std::optional<std::string>& chars, bool left,
                       bool right) {
  std::vector<std::string_view> taken = chars ? Points(*chars) : std::vector<std::string_view>();
  std::ranges::sort(taken);  // both may be long
  const auto goes = [&](std::string_view point) {
    if (chars) return std::ranges::binary_search(taken, point);
    return SpaceBytes(point, 0) > 0;
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

std::string Capitalize(std::string_view text) {
  if (text.empty()) return {};
  const size_t first = CharBytes(text, 0);
  return MapChars(text.substr(0, first), utf8proc_totitle) + ToLower(text.substr(first));
}

}  // namespace nxdkit::trainer::jinja
