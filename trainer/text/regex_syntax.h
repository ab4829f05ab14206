// PRIVATE to trainer/text. Translates Oniguruma's Ruby syntax to PCRE2's. Syntax that both share
// but interpret differently is rewritten where a tokenizer's pattern may contain it (\s: PCRE2 adds
// U+180E; \p{Han}: script extensions only there), and refused elsewhere ({n}+: possessive only
// there).
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::trainer {

// The pattern in the form that means the same in PCRE2 (UTF and UCP); README.md lists the supported
// syntax. kUnsupported with the offset of anything else.
Result<std::string> TranslateOniguruma(std::string_view pattern);

// A pattern that matches `text` and nothing else, for Compile.
std::string EscapeRegex(std::string_view text);

}  // namespace nxdkit::trainer
