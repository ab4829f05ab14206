#include "trainer/reward/text.h"

#include <utf8proc.h>

#include "lib/base/utf8.h"

namespace nxdkit::trainer {

bool IsLetter(std::string_view text, size_t at) {
  const std::optional<CodePoint> point = DecodeUtf8(text, at);
  if (!point) return false;
  const utf8proc_category_t category =
      utf8proc_category(static_cast<utf8proc_int32_t>(point->value));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  return RewriteEach(text, from, [&](std::string_view, std::string* out) {
    out->append(to);
    return size_t{0};
  });
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
