// PRIVATE to formats/models: the texts of families/*.family, by name.
#pragma once

#include <span>
#include <string_view>

namespace nxdkit::models {

extern const std::span<const std::string_view> kBuiltInFamilies;

}  // namespace nxdkit::models
