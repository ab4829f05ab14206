// Words of the configuration and their values: one table per setting.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/text.h"

namespace nxdkit::trainer {

template <typename T>
struct Named {
  const char* name;
  T value;
};

// The value called `name`. kUsage naming the setting as member, with all valid names and a near
// miss.
template <typename T, size_t N>
Result<T> FindNamed(const Named<T> (&table)[N], std::string_view setting, std::string_view name) {
  std::vector<std::string> names;
  std::string list;
  for (const Named<T>& entry : table) {
    if (name == entry.name) return entry.value;
    names.emplace_back(entry.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  Error error =
      Error(Errc::kUsage, "'" + EscapeControl(name) + "' is not one of " + list).member(setting);
  if (const auto near = ClosestWord(name, names))
    return std::move(error).hint("did you mean " + *near + "?");
  return error;
}

}  // namespace nxdkit::trainer
