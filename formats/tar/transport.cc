#include "formats/tar/transport.h"

#include <fmt/core.h>

namespace nxdkit::tar {

Result<std::string> SafeName(std::string_view name, int strip) {
  const auto refuse = [&](std::string message) {
    return Error(Errc::kCorrupt, std::move(message)).member(name.substr(0, 256));
  };
  if (name.size() > kMaxNameBytes)
    return refuse(
        fmt::format("a name of {} bytes is over the limit of {}", name.size(), kMaxNameBytes));
  if (name.find('\0') != std::string_view::npos) return refuse("a name with a NUL byte");
  if (name.starts_with('/')) return refuse("an absolute name would leave the output folder");
  std::string safe;
  size_t depth = 0;
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return refuse("\"..\" would leave the output folder");
    if (++depth > kMaxDepth)
      return refuse(fmt::format("the name is over {} folders deep", kMaxDepth));
    if (static_cast<int>(depth) <= strip) continue;
    if (!safe.empty()) safe += '/';
    safe += part;
  }
  return safe;
}

}  // namespace nxdkit::tar
