// Unicode normalization form C, as the library `tokenizers` has it.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::trainer {

// `text` must be UTF-8. Linear but for the sorting of marks: what follows one letter costs
// n log n, however long. kLimit when memory is short.
Result<std::string> ToNfc(std::string_view text);

}  // namespace nxdkit::trainer
