// Unicode normalization form C, as implemented by the library `tokenizers`.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::trainer {

// `text` must be UTF-8. Linear except for the sorting of marks: n marks after one letter cost n log
// n. kLimit when there is too little memory.
Result<std::string> ToNfc(std::string_view text);

}  // namespace nxdkit::trainer
