// PRIVATE to tests. Helpers shared by the tests of the optimizer's state.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "formats/artifact/bound.h"

namespace nxdkit::testing_util {

inline const std::string kQwenConfig = NXDKIT_TESTDATA "/dcp/config.json";

template <typename Number>
std::string BytesOf(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

inline ops::InputHints StateHints() {
  ops::InputHints hints;
  hints.config = kQwenConfig;
  hints.optimizer = true;
  return hints;
}

// An option of a group; nullptr when the group does not have it.
inline const torch::PickleValue* OptionIn(const ops::BoundArtifact& bound, size_t group,
                                          std::string_view name) {
  if (group >= bound.optimizer->groups.size()) return nullptr;
  for (const auto& [key, value] : bound.optimizer->groups[group])
    if (*key.string() == name) return &value;
  return nullptr;
}

}  // namespace nxdkit::testing_util
