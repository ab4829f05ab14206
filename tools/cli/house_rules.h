// PRIVATE to tools/: rules of a command line beyond CLI11's own. `_` equals `-` in long names; a
// flag takes no value; a value is neither empty nor an option; a near miss is answered with the
// closest name; a path is local.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/option_table.h"

namespace nxdkit::tool {

// The arguments with every long name spelled with `-`; kUsage for a broken rule.
Result<std::vector<std::string>> ApplyHouseRules(const std::vector<OptionFacts>& options,
                                                 const std::vector<std::string>& arguments);

// kUsage for what CLI11 could not place: an unknown short option, or one argument too many.
Status CheckRemaining(const std::vector<OptionFacts>& options,
                      const std::vector<std::string>& remaining);

// Replaces an exception of CLI11: `last`, the last argument, is a short option without its value.
Error EndsTooEarly(const std::vector<OptionFacts>& options, const std::string& last);

// kUnsupported when the value of an option that names a local path is a URL: s3://bucket/x must not
// become a folder `s3:`.
Status CheckLocal(const OptionFacts& option, const std::string& value);

// Whether `--json` is among the options, also where the rest cannot be parsed, so that a usage
// error can be reported as JSON too.
bool WantsJson(const std::vector<std::string>& arguments);

}  // namespace nxdkit::tool
