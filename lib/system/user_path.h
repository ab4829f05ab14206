// Paths as people write them: in a configuration, or as an option.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit {

// "s3" of "s3://bucket/x", and of "s3:/bucket/x" for known schemes; "" if it is not a URL. A path
// that starts with ./ never is one.
std::string_view UrlScheme(std::string_view text);

// kUnsupported for a URL, with advice: URLs are neither read nor written, and nobody means a folder
// named "s3:".
Status RefuseUrl(std::string_view text);

// Expands a path as a shell does: "~", "$HOME" and "${HOME}", alone or before a slash at the front,
// are the home folder; "./~" is a folder of that name. kUsage for "~NAME" at the front and for
// another variable anywhere, unless a file of that very name exists, and if HOME is not set;
// kUnsupported for URLs.
Result<std::string> UserPath(const std::string& text);

}  // namespace nxdkit
