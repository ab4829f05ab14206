#include "lib/system/aside.h"

#include <fmt/core.h>
#include <unistd.h>

namespace nxdkit {
namespace {

constexpr std::string_view kMiddle = ".old.";
constexpr std::string_view kEnd = ".partial";

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::string AsideName(const std::string& output, uint64_t inode) {
  return fmt::format("{}{}{}-{}{}", output, kMiddle, ::getpid(), inode, kEnd);
}

std::optional<std::string_view> OutputOfAside(std::string_view name) {
  if (!name.ends_with(kEnd)) return std::nullopt;
  name.remove_suffix(kEnd.size());
  const size_t at = name.rfind(kMiddle);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view owner = name.substr(at + kMiddle.size());
  const size_t dash = owner.find('-');
  if (dash == std::string_view::npos || !IsNumber(owner.substr(0, dash)) ||
      !IsNumber(owner.substr(dash + 1)))
    return std::nullopt;
  return name.substr(0, at);
}

}  // namespace nxdkit
