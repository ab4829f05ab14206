// PRIVATE to tools/: what an engine's loader would make of a folder, for people and for programs.
#pragma once

#include "formats/ops/verify/serve.h"
#include "tools/cli/tool.h"

namespace nxdkit::tool {

// Lines for people: where the rules come from, what is good, what is not. With -v a line for each
// parameter of the engine on standard error; --json has them all.
ToolAnswer ServingAnswer(const ops::ServeRequest& request, const ops::ServeReport& report,
                         ToolContext& context);

}  // namespace nxdkit::tool
