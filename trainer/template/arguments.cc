#include "trainer/template/arguments.h"

#include <fmt/core.h>

#include <algorithm>

namespace nxdkit::trainer::jinja {

const Value* Arguments::Get(size_t place, std::string_view name) const {
  return place < values.size() ? &values[place] : Find(named, name);
}

Status Arguments::Allow(size_t most, std::span<const std::string_view> names) const {
  if (values.size() > most)
    return Error(Errc::kUnsupported,
                 fmt::format("{} arguments, {} are known", values.size(), most));
  for (const auto& [name, value] : named)
    if (std::ranges::find(names, name) == names.end())
      return Error(Errc::kUnsupported, fmt::format("the argument '{}'", name));
  return OkStatus();
}

Result<std::optional<std::string>> Arguments::Text(size_t place, std::string_view name) const {
  const Value* value = Get(place, name);
  if (value == nullptr || value->is_none()) return std::optional<std::string>();
  if (value->text() != nullptr) return std::optional(*value->text());
  return Error(Errc::kCorrupt,
               fmt::format("the argument '{}' is {}, expected a str", name, TypeName(*value)));
}

}  // namespace nxdkit::trainer::jinja
