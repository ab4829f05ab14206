// This file defines only Kinds(): a program linked with another table has other kinds.
#include "formats/kinds/table.h"

namespace nxdkit::kinds {

std::span<const Kind* const> Kinds() {
  static constexpr const Kind* kRows[] = {&kHf,  &kNxd,  &kRollout, &kTorch,        &kDelta,
                                          &kDcp, &kFsdp, &kZero,    &kMegatronDist, &kNkipy};
  return kRows;
}

}  // namespace nxdkit::kinds
