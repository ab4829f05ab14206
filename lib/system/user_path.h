// Paths as people write them: into a configuration, or as an option.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit {

// "s3" of "s3://bucket/x"; "" for what is no URL. A path with a ./ before it is never one.
std::string_view UrlScheme(std::string_view text);

// kUnsupported for a URL, with what to do instead: nothing here reads or writes one, and a folder
// named "s3:" is what nobody meant.
Status RefuseUrl(std::string_view text);

// What a shell makes of a path: "~", "$HOME" and "${HOME}", alone or before a slash, are the home
// folder. Where something lies under the very name, that is meant. kUsage for "~NAME", for another
// variable at the front, and where HOME is not set; kUnsupported for URLs.
Result<std::string> UserPath(const std::string& text);

}  // namespace nxdkit
