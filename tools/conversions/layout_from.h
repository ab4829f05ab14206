// PRIVATE to tools/: what --layout-from, --instance, --nodes and --seq say of a training.
#pragma once

#include "tools/conversions/sides.h"

namespace nxdkit::tool {

// Adds what the file of --layout-from says and no option does to `said`; notes, the model's
// configuration and the training's settings to `sides`. Nothing without the option.
Status TakeLayoutFrom(const kinds::Kind& to, artifact::Arguments& said, Sides& sides);

// What follows from --instance, with which --hw must go together, --nodes and --seq.
Status TakeInstance(const kinds::Kind& to, const artifact::Arguments& said,
                    const ToolContext& context, Sides& sides);

}  // namespace nxdkit::tool
