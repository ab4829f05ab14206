#include "trainer/template/python_text.h"

#include <fmt/core.h>
#include <utf8proc.h>

#include <algorithm>
#include <optional>

#include "lib/base/errors.h"
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

}  // namespace

void AppendPythonRepr(std::string_view text, std::string* out) {
  constexpr std::string_view kEscaped = "\n\r\t\\", kLetters = "nrt\\";
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  *out += quote;
  for (const std::string_view bytes : Points(text)) {
    const std::optional<CodePoint> decoded = DecodeUtf8(bytes, 0);
    const uint32_t point = decoded ? decoded->value : static_cast<uint8_t>(bytes[0]);
    if (const size_t letter = kEscaped.find(bytes); letter != std::string_view::npos)
      out->append("\\") += kLetters[letter];
    else if (point == static_cast<uint8_t>(quote))
      out->append("\\").append(bytes);
    else if (IsPrintable(point))
      *out += bytes;
    else if (point < 0x100)
      *out += fmt::format("\\x{:02x}", point);
    else
      *out += point < 0x10000 ? fmt::format("\\u{:04x}", point) : fmt::format("\\U{:08x}", point);
  }
  *out += quote;
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
  if (from.empty()) return Unsupported("the replacement of an empty text");
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
