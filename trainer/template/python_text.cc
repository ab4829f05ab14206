#include "trainer/template/python_text.h"

#include <fmt/core.h>
#include <string.h>
#include <utf8proc.h>

#include "lib/base/errors.h"
#include "lib/base/utf8.h"
#include "trainer/template/python_case.h"

namespace nxdkit::trainer::jinja {
namespace {

// str.isprintable(): all categories but Other and Separator, and the space.
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

template <typename Goes>
std::string_view StripWhere(std::string_view text, bool left, bool right, const Goes& goes) {
  while (left && !text.empty()) {
    const std::string_view first = text.substr(0, CharBytes(text, 0));
    if (!goes(first)) break;
    text.remove_prefix(first.size());
  }
  while (right && !text.empty()) {
    const std::string_view last = text.substr(CharBegin(text, text.size() - 1));
    if (!goes(last)) break;
    text.remove_suffix(last.size());
  }
  return text;
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

size_t FindText(std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const std::string_view rest = text.substr(from);
  const void* found = ::memmem(rest.data(), rest.size(), wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

std::string_view StripSpace(std::string_view text, bool left, bool right) {
  return StripWhere(text, left, right, [](std::string_view point) { return SpaceBytes(point, 0); });
}

Result<std::string> Strip(std::string_view text, const std::optional<std::string>& chars, bool left,
                          bool right) {
  constexpr size_t kMaxChars = 1024;
  if (!chars) return std::string(StripSpace(text, left, right));
  if (chars->size() > kMaxChars)
    return OverLimit("strip() of more than {} bytes of characters", kMaxChars);
  return std::string(StripWhere(text, left, right, [&](std::string_view point) {
    return FindText(*chars, point) != std::string_view::npos;
  }));
}

Result<std::string> Replace(std::string_view text, std::string_view from, std::string_view to,
                            int64_t most, Budget& budget) {
  if (from.empty()) return Unsupported("the replacement of an empty text");
  std::string out;
  size_t begin = 0;
  for (int64_t done = 0; most < 0 || done < most; ++done) {
    const size_t at = FindText(text, from, begin);
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
  return PythonTitle(text.substr(0, first)) + PythonLower(text.substr(first));
}

}  // namespace nxdkit::trainer::jinja
