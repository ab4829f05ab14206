// PRIVATE to tools/: what a command line must keep beyond CLI11's own rules. `_` is as good as
// `-` in long names; a flag takes no value; no value is empty or an option; a near miss is
// answered with the closest name; a path is local.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/option_table.h"

namespace nxdkit::tool {

// The arguments with every long name spelled with `-`; kUsage where a rule is broken.
Result<std::vector<std::string>> ApplyHouseRules(const std::vector<OptionFacts>& options,
                                                 const std::vector<std::string>& arguments);

// kUsage for what CLI11 could not place: an unknown short option, or one argument too many.
Status CheckRemaining(const std::vector<OptionFacts>& options,
                      const std::vector<std::string>& remaining);

// What CLI11 throws at: `last`, the last argument, is a short option without its value.
Error EndsTooEarly(const std::vector<OptionFacts>& options, const std::string& last);

// kUnsupported when the value of an option that names a local path is a URL: s3://bucket/x must not
// become a folder `s3:`.
Status CheckLocal(const OptionFacts& option, const std::string& value);

// Whether `--json` is among the options, also where the rest cannot be parsed, so that a usage
// error can be reported as JSON too.
bool WantsJson(const std::vector<std::string>& arguments);

}  // namespace nxdkit::tool
