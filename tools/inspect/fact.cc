#include "tools/inspect/fact.h"

#include <cmath>

namespace nxdkit::tool {

Json FiniteOrNull(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

std::string ItemText(const ops::Item& item) {
  return fmt::format("{} ({})", item.name, HumanBytes(item.bytes));
}

Json ItemsJson(const std::vector<ops::Item>& items) {
  return ArrayOf(items, [](const ops::Item& item) -> Json {
    return {{"name", item.name}, {"bytes", item.bytes}};
  });
}

}  // namespace nxdkit::tool
