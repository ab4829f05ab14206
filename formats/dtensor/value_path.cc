#include "formats/dtensor/value_path.h"

#include <fmt/core.h>

namespace nxdkit::dtensor {

std::string ValuePath::Text() const {
  std::string text;
  for (const auto& part : parts) {
    if (!text.empty()) text += '.';
    const auto* name = std::get_if<std::string>(&part);
    text += name ? *name : std::to_string(std::get<int64_t>(part));
  }
  return text;
}

std::string ValuePath::Unique() const {
  std::string text;
  for (const auto& part : parts) {
    const auto* name = std::get_if<std::string>(&part);
    text += name ? fmt::format("{}:{}", name->size(), *name)
                 : fmt::format("#{}", std::get<int64_t>(part));
  }
  return text;
}

}  // namespace nxdkit::dtensor
