// PRIVATE to formats/artifact: the tests that values.h makes on all bytes, at the speed of the
// cache.
#pragma once

#include <cstddef>
#include <span>

#include "formats/artifact/words.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::artifact {

// Whether no element is a NaN or an infinity. HasTally(dtype) holds.
bool AllFinite(Dtype dtype, std::span<const std::byte> elements);

// Whether every element is a zero, of either sign. HasTally(dtype) holds.
bool AllZero(Dtype dtype, std::span<const std::byte> elements);

}  // namespace nxdkit::artifact
