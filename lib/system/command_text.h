// Commands in shell syntax.
#pragma once

#include <string>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit {

// The words, quoted for a shell: "optimum-cli export 'my model'".
std::string CommandText(const std::vector<std::string>& words);

// Splits at white space; '...' and "..." hold white space together. kUsage for an open quote.
Result<std::vector<std::string>> SplitCommand(const std::string& text);

}  // namespace nxdkit
