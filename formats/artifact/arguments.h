// The options for one kind of artifact, by name: each kind reads its own (formats/kinds/options.h),
// so that no code between a command line and a kind has to know them.
#pragma once

#include <any>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lib/base/error.h"

namespace nxdkit::artifact {

class Arguments {
 public:
  // Values of options are int, bool or std::string; programs may set any type. nullopt: not given.
  template <typename T>
  void Set(std::string_view name, T value) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      values_[std::string(name)] = static_cast<int>(value);
    else
      values_[std::string(name)] = std::move(value);
  }
  template <typename T>
  void Set(std::string_view name, std::optional<T> value) {
    value ? Set(name, *std::move(value)) : Reset(name);
  }
  void Set(std::string_view name, const char* value) { Set(name, std::string(value)); }
  void SetAny(std::string_view name, const std::any& value) { values_[std::string(name)] = value; }
  void Reset(std::string_view name) {
    if (const auto found = values_.find(name); found != values_.end()) values_.erase(found);
  }
  void Reset() { values_.clear(); }

  bool Has(std::string_view name) const { return values_.contains(name); }
  // nullopt if it is not given. The type must be that of the option.
  template <typename T>
  std::optional<T> Get(std::string_view name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return std::nullopt;
    const T* value = std::any_cast<T>(&found->second);
    NXDKIT_CHECK(value != nullptr);
    return *value;
  }
  std::optional<int> Number(std::string_view name) const { return Get<int>(name); }
  std::optional<bool> Toggle(std::string_view name) const { return Get<bool>(name); }
  std::optional<std::string> Text(std::string_view name) const { return Get<std::string>(name); }
  const std::map<std::string, std::any, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, std::any, std::less<>> values_;
};

}  // namespace nxdkit::artifact
