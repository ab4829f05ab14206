// PRIVATE to formats/models: the texts of families/*.family, by name.
#pragma once

#include <span>
#include <string_view>

namespace nxdkit::models {

struct BuiltInFamily {
  std::string_view text;
  std::string_view sha256;  // of the text, in hex; stored because OpenSSL takes 2 MB once used
};
extern const std::span<const BuiltInFamily> kBuiltInFamilies;

}  // namespace nxdkit::models
