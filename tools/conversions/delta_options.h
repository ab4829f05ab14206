// PRIVATE to tools/: the options of nxd-convert that are about deltas.
#pragma once

#include <optional>
#include <string>

#include "formats/ops/convert/convert.h"
#include "lib/base/error.h"
#include "tools/cli/option_table.h"

namespace nxdkit::tool {

struct DeltaArgs {
  std::optional<std::string> base;
  std::optional<std::string> coding;
  std::optional<std::string> delta_from;
  std::optional<std::string> apply;
};

// What a command line says of formats and places.
struct Ends {
  std::string from;
  std::string to;
  std::string input;
  std::string output;
};

void AddDeltaOptions(OptionTable& table, DeltaArgs& args);

// Writes out the two short forms:
//   --delta-from PREV INPUT OUTPUT    is --to delta --base PREV INPUT OUTPUT
//   --apply DELTA BASE OUTPUT         is --from delta --base BASE DELTA OUTPUT
//   --apply DELTA --into BUNDLE       is --from delta --to rollout --into DELTA BUNDLE
// kUsage where they meet another word on the same thing.
Status ExpandDelta(bool into, DeltaArgs& args, Ends& ends);

// Base and coding; kUsage where they have nothing to say.
Status TakeDelta(const DeltaArgs& args, bool dtype_given, ops::ConvertRequest& request);

}  // namespace nxdkit::tool
