// --explain: where every byte of an output comes from.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/artifact/slices.h"
#include "formats/ops/convert/convert.h"

namespace nxdkit::ops {

// A file of the source or of the output.
struct PlanEnd {
  std::string name;    // with its rank: "weights/tp3.safetensors (tp rank 3)"
  std::string label;   // the same in short: "tp 3"
  uint64_t bytes = 0;  // of the parts that come from it, or go to it
};

// The bytes of the output that come from a file.
struct PlanFlow {
  uint32_t from = 0;
  uint32_t to = 0;
  uint64_t bytes = 0;
};

struct Explanation {
  std::vector<PlanEnd> sources;
  std::vector<PlanEnd> targets;
  std::vector<PlanFlow> flows;                  // by source, then by target
  uint64_t fill_bytes = 0;                      // constants: padding, and the numbers of ranks
  std::vector<artifact::TensorSlices> tensors;  // of each name once, in the order of the output
  std::string text;                             // each part of the named tensors, with file bytes
};

// The tensors to explain: an output tensor, or a pattern with * and ? (GlobMatch), with the text of
// its parts; "": all tensors, without text.
struct ExplainRequest {
  std::string name;
  bool parts = true;          // else `tensors` have no slices: the flows take far less memory
  uint64_t part_bytes = 300;  // memory for each part, with what the caller makes of it
};

// The plan of a conversion; nothing is written. kNotFound if no output tensor has the name (with
// the closest one as a hint); kLimit for more parts than --max-memory holds.
Result<Explanation> Explain(const ConvertRequest& request, const ExplainRequest& what);

// The parts of one tensor as text lines: tensor, output and plan belong together, and are made from
// `source`. `where`: its place in the output, "" for none.
std::string ExplainTensor(const BoundArtifact& source, const TensorLayout& tensor,
                          const OutputTensor& output, const TensorPlan& plan,
                          std::string_view where);
// A file of an output and its rank: "weights/tp3.safetensors (tp rank 3)"; `fallback` is the path
// of a file without a name.
std::string WhereText(const LayoutFile& file, const std::string& fallback);

}  // namespace nxdkit::ops
