#include "formats/artifact/bound.h"

#include <algorithm>

namespace nxdkit::artifact {

size_t LoraParts::pair_count() const {
  return static_cast<size_t>(
      std::ranges::count_if(pairs, [](const auto& pair) { return pair.has_value(); }));
}

size_t LoraParts::whole_count() const {
  return static_cast<size_t>(
      std::ranges::count_if(wholes, [](const auto& whole) { return whole.has_value(); }));
}

bool StoresHead(const BoundArtifact& artifact) {
  return std::ranges::any_of(artifact.bound.layout.tensors, [](const TensorLayout& tensor) {
    return tensor.name == "lm_head.weight" || tensor.name == "language_model.output_layer.weight";
  });
}

}  // namespace nxdkit::artifact
