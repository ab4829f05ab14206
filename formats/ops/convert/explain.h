// --explain: where every byte of an output tensor comes from.
#pragma once

#include <string>
#include <string_view>

#include "formats/ops/convert/convert.h"

namespace nxdkit::ops {

// All output tensors with this name (one per rank), as text lines. kNotFound if no output tensor
// has the name (with the closest one as a hint).
Result<std::string> Explain(const ConvertRequest& request, const std::string& tensor);

// The same for one tensor: tensor, output and plan belong together, and are made from `source`.
// `where`: its place in the output, "" for none.
std::string ExplainTensor(const BoundArtifact& source, const TensorLayout& tensor,
                          const OutputTensor& output, const TensorPlan& plan,
                          std::string_view where);
// A file of an output and its rank: "weights/tp3.safetensors (tp rank 3)"; `fallback` is the path
// of a file without a name.
std::string WhereText(const LayoutFile& file, const std::string& fallback);

}  // namespace nxdkit::ops
