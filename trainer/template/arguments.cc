#include "trainer/template/arguments.h"

#include <algorithm>

#include "lib/base/errors.h"

namespace nxdkit::trainer::jinja {

const Value* Arguments::Get(size_t place, std::string_view name) const {
  return place < values.size() ? &values[place] : Find(named, name);
}

Status Arguments::Allow(const Parameters& known) const {
  if (values.size() > known.most)
    return Unsupported("{} arguments, {} are known", values.size(), known.most);
  for (const auto& [name, value] : named)
    if (std::ranges::find(known.names, name.text) == known.names.end())
      return Unsupported("the argument '{}'", name.text);
  return OkStatus();
}

Result<std::optional<std::string>> Arguments::Text(size_t place, std::string_view name) const {
  const Value* value = Get(place, name);
  if (value == nullptr || value->is_none()) return std::optional<std::string>();
  if (value->text() != nullptr) return std::optional(*value->text());
  return Corrupt("the argument '{}' is {}, expected a str", name, TypeName(*value));
}

}  // namespace nxdkit::trainer::jinja
