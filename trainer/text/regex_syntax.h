// PRIVATE to trainer/text. From Oniguruma's Ruby syntax to PCRE2's. What both write alike but mean
// differently is rewritten where a pattern of a tokenizer could hold it (\s: PCRE2 adds U+180E;
// \p{Han}: script extensions only there), and refused elsewhere ({n}+: possessive only there).
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::trainer {

// The pattern as PCRE2 (UTF and UCP) must have it to mean the same; README.md lists what is known.
// kUnsupported with the offset of what is not.
Result<std::string> TranslateOniguruma(std::string_view pattern);

// A pattern that matches `text` and nothing else, for Compile.
std::string EscapeRegex(std::string_view text);

}  // namespace nxdkit::trainer
