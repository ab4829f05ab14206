// PRIVATE to tools/: how an engine's loader would read a folder, for people and for programs.
#pragma once

#include "formats/ops/verify/serve.h"
#include "tools/cli/tool.h"

namespace nxdkit::tool {

// Lines for people: the source of the rules, the passed checks, the findings. With -v a line for
// each parameter of the engine on standard error; --json has them all.
ToolAnswer ServingAnswer(const ops::ServeRequest& request, const ops::ServeReport& report,
                         ToolContext& context);

}  // namespace nxdkit::tool
