// --explain: where every byte of an output tensor comes from.
#pragma once

#include <string>

#include "formats/ops/convert/convert.h"

namespace nxdkit::ops {

// All output tensors with this name (one per rank), as text lines. kNotFound when no output tensor
// has the name (with the closest one as a hint).
Result<std::string> Explain(const ConvertRequest& request, const std::string& tensor);

}  // namespace nxdkit::ops
