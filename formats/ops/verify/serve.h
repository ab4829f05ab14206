// A Hugging Face folder, judged before an instance is rented: the result, parameter by parameter,
// of loading it with a vLLM Neuron engine. The rules are derived from the engine's sources, not run
// (formats/vllm_neuron/FORMAT.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/ops/verify/verify.h"
#include "formats/vllm_neuron/geometry.h"
#include "formats/vllm_neuron/target.h"

namespace nxdkit::ops {

struct ServeRequest {
  std::string path;
  InputHints hints;
  vllm_neuron::Geometry geometry;
  vllm_neuron::Target target = vllm_neuron::Target::kTrn2;
  std::optional<Dtype> dtype;  // the engine's; nullopt: that of config.json, BF16 for float32
  bool values = true;          // read FP8 weights, and a head next to its embedding
  RunOptions run;
};

// A parameter of the engine, as the first core holds it.
struct LoadedParam {
  std::string name;  // the engine's
  Shape shape;
  Dtype dtype = Dtype::kBF16;
  std::vector<std::string> from;  // names in the folder, in the order in which they are joined
  std::vector<int> zero_cores;    // cores with zeros instead of key or value heads, or rows
};

struct ServeReport : VerifyReport {
  Dtype dtype = Dtype::kBF16;
  std::vector<LoadedParam> loads;
  uint64_t least_bytes = 0, most_bytes = 0;  // of the weights on a core
  std::string assumed;                       // an assumption without a source; "" for none
};

// Reads headers, and only those values that matter: FP8 weights, KV scales, and a head next to the
// embedding that it is tied to. Errors are those of files that cannot be read, and kUnsupported for
// a family for which the engine's layout is not known; anything that the engine would refuse or
// load wrongly is a finding.
Result<ServeReport> JudgeServing(const ServeRequest& request);

}  // namespace nxdkit::ops
