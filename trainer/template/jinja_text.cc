#include "trainer/template/jinja_text.h"

#include <fmt/core.h>
#include <utf8proc.h>

#include <optional>

#include "lib/base/utf8.h"

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

void AppendUtf8(uint32_t point, std::string* out) {
  uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<int32_t>(point), bytes);
  out->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

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

}  // namespace nxdkit::trainer::jinja
