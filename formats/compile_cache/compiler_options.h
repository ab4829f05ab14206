// PRIVATE: options of neuronx-cc in a list of words. "--name=value" and "--name value" are the
// same.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nxdkit::neff {

// The last value of the option, under any of its names; nullopt if it is absent.
std::optional<std::string> OptionValue(const std::vector<std::string>& words,
                                       std::initializer_list<std::string_view> names);

// The words without the option and its value.
std::vector<std::string> WithoutOption(const std::vector<std::string>& words,
                                       std::string_view name);

}  // namespace nxdkit::neff
