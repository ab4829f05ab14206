// Paths as people write them: into a configuration, or as an option.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit {

// "s3" of "s3://bucket/x", and of "s3:/bucket/x" for the schemes that are known; "" for what is no
// URL. A path with a ./ before it is never one.
std::string_view UrlScheme(std::string_view text);

// kUnsupported for a URL, with what to do instead: nothing here reads or writes one, and a folder
// named "s3:" is what nobody meant.
Status RefuseUrl(std::string_view text);

// What a shell makes of a path: "~", "$HOME" and "${HOME}", alone or before a slash at the front,
// are the home folder; "./~" is a folder of that name. kUsage for "~NAME" at the front and for
// another variable anywhere, unless something lies there under that very name, and where HOME is
// not set; kUnsupported for URLs.
Result<std::string> UserPath(const std::string& text);

}  // namespace nxdkit
