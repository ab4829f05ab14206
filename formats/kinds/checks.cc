#include "formats/kinds/checks.h"

#include <fmt/core.h>

namespace nxdkit::ops {

void NameMeaning(const BoundArtifact& bound, uint64_t ranks, std::string_view assumed,
                 std::vector<std::string>& checks) {
  if (!SplitsQkv(*bound.model->config.family)) return;
  checks.push_back(
      fmt::format("meaning: on all {} ranks and {} layers every query head sits with its own key "
                  "head, and o_proj's columns match{}",
                  ranks, bound.model->config.layers, assumed));
}

}  // namespace nxdkit::ops
