#include "lib/system/last_words.h"

#include <fmt/core.h>

#include "lib/base/text.h"

namespace nxdkit {

void LastWords::Read(Child& child) {
  constexpr size_t kKept = 16 << 10;
  if (!child.err.is_open()) return;
  char buffer[1 << 14];
  const std::optional<std::string_view> some = ReadSome(child.err, buffer);
  if (!some) return;
  if (some->empty()) return child.err.Close();
  text_ += *some;
  if (text_.size() > kKept) text_.erase(0, text_.size() - kKept);
}

Error LastWords::AddTo(const Error& error) const {
  constexpr size_t kShown = 2000;
  std::string_view words = text_;
  while (!words.empty() && (words.back() == '\n' || words.back() == '\r')) words.remove_suffix(1);
  if (words.size() > kShown) words.remove_prefix(words.size() - kShown);
  if (words.empty()) return error;
  std::string lines;
  for (const std::string_view line : Split(words, '\n'))
    lines += (lines.empty() ? "" : " | ") + EscapeControl(line);
  return Error(error.code(), fmt::format("{}; its standard error: {}", error.message(), lines))
      .in(error.file())
      .member(error.member())
      .hint(error.hint());
}

}  // namespace nxdkit
