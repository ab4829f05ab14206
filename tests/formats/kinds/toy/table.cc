// The product's kinds and one more. A program that defines Kinds() links nothing of the library's
// own table.
#include "formats/kinds/table.h"

#include "tests/formats/kinds/toy/kind_npy.h"

namespace nxdkit::kinds {

std::span<const Kind* const> Kinds() {
  static constexpr const Kind* kRows[] = {&kHf, &kNxd, &kRollout, &kTorch, &kDelta, &kDcp, &kNpy};
  return kRows;
}

}  // namespace nxdkit::kinds
