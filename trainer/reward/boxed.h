// The final answer of a response: what is in its last \boxed{...}.
#pragma once

#include <string>
#include <string_view>

namespace nxdkit::trainer {

// Trimmed. "None", which is graded like any other text, when there is no box or the last one is not
// closed: an unclosed last box hides complete ones before it. Escaped braces count as braces.
std::string ExtractBoxed(std::string_view response);

}  // namespace nxdkit::trainer
