#include "trainer/reward/text.h"

#include <locale.h>
#include <utf8proc.h>

#include <cstdlib>

#include "lib/base/utf8.h"

namespace nxdkit::trainer {
namespace {

// Python's str.isspace.
bool IsSpace(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

}  // namespace

size_t CharBytes(std::string_view text, size_t at) {
  const std::optional<CodePoint> point = DecodeUtf8(text, at);
  return point ? static_cast<size_t>(point->bytes) : 1;
}

bool IsLetter(std::string_view text, size_t at) {
  const std::optional<CodePoint> point = DecodeUtf8(text, at);
  if (!point) return false;
  const utf8proc_category_t category =
      utf8proc_category(static_cast<utf8proc_int32_t>(point->value));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

size_t SpaceBytes(std::string_view text, size_t at) {
  if (at >= text.size()) return 0;
  const std::optional<CodePoint> point = DecodeUtf8(text, at);
  return point && IsSpace(point->value) ? static_cast<size_t>(point->bytes) : 0;
}

size_t CountChars(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += CharBytes(text, at)) ++count;
  return count;
}

std::string_view Strip(std::string_view text) {
  size_t begin = 0;
  while (const size_t bytes = SpaceBytes(text, begin)) begin += bytes;
  text.remove_prefix(begin);
  while (!text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
    if (SpaceBytes(text, last) != text.size() - last) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

std::string Lower(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharBytes(text, at);
    const std::optional<CodePoint> point = DecodeUtf8(text, at);
    utf8proc_uint8_t buffer[4];
    utf8proc_ssize_t length = 0;
    if (point)
      length = utf8proc_encode_char(utf8proc_tolower(static_cast<utf8proc_int32_t>(point->value)),
                                    buffer);
    if (length > 0)
      out.append(reinterpret_cast<const char*>(buffer), static_cast<size_t>(length));
    else
      out.append(text.substr(at, bytes));
    at += bytes;
  }
  return out;
}

std::optional<double> ParseDouble(const std::string& text) {
  static const locale_t kPlain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  char* end = nullptr;
  const double value = ::strtod_l(text.c_str(), &end, kPlain);
  if (text.empty() || end != text.c_str() + text.size()) return std::nullopt;
  return value;
}

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (;;) {
    const size_t at = text.find(from);
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    out.append(to);
    text.remove_prefix(at + from.size());
  }
}

std::string ReplaceEach(std::string text, std::span<const Replacement> list) {
  for (const Replacement& one : list) text = ReplaceAll(text, one.from, one.to);
  return text;
}

std::string_view UnwrapText(std::string_view text) {
  constexpr std::string_view kOpen = "\\text{";
  std::string_view body = text;
  if (body.ends_with('\n')) body.remove_suffix(1);
  if (!body.starts_with(kOpen) || !body.ends_with('}') || body.size() < kOpen.size() + 2)
    return text;
  const std::string_view inside = body.substr(kOpen.size(), body.size() - kOpen.size() - 1);
  return inside.find('\n') == std::string_view::npos ? inside : text;
}

}  // namespace nxdkit::trainer
