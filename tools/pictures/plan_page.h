// PRIVATE to tools/: the plan of a conversion as a page: files of the source on the left, ranks on
// the right, for all tensors or for a chosen one.
#pragma once

#include <string>

#include "formats/ops/convert/explain.h"
#include "lib/json/json.h"

namespace nxdkit::tool {

// "flows", for --json: the bytes that go from one file to another.
Json FlowsJson(const ops::Explanation& plan);

std::string PlanPage(const ops::Explanation& plan, const ops::ConvertRequest& request);

}  // namespace nxdkit::tool
