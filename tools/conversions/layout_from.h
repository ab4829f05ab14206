// PRIVATE to tools/: the training described by --layout-from, --instance, --nodes and --seq.
#pragma once

#include "tools/conversions/sides.h"

namespace nxdkit::tool {

// Adds to `said` what the file of --layout-from gives and no option does; notes, the model's
// configuration and the training's settings go to `sides`. Does nothing without the option.
Status TakeLayoutFrom(const kinds::Kind& to, artifact::Arguments& said, Sides& sides);

// Applies --instance, which must agree with --hw, --nodes and --seq.
Status TakeInstance(const kinds::Kind& to, const artifact::Arguments& said,
                    const ToolContext& context, Sides& sides);

}  // namespace nxdkit::tool
