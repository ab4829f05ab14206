// A Hugging Face folder, judged before an instance is rented: the weight loader of a vLLM Neuron
// engine would make this of it, parameter by parameter. The rules are derived from the engine's
// sources, not run (formats/vllm_neuron/FORMAT.md).
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
  std::optional<Dtype> dtype;  // of the engine; nullopt: that of config.json, BF16 for float32
  bool values = true;          // FP8 weights, and a head beside its embedding, are read
  RunOptions run;
};

// A parameter of the engine, by what the first core holds.
struct LoadedParam {
  std::string name;  // the engine's
  Shape shape;
  Dtype dtype = Dtype::kBF16;
  std::vector<std::string> from;  // names in the folder, in the order in which they are joined
  std::vector<int> zero_cores;    // where key or value heads, or rows, are zeros in their place
};

struct ServeReport : VerifyReport {
  Dtype dtype = Dtype::kBF16;
  std::vector<LoadedParam> loads;
  uint64_t least_bytes = 0, most_bytes = 0;  // of the weights on a core
  std::string assumed;                       // what no source says; "" for nothing
};

// Headers are read, and of values only those that decide: FP8 weights, KV scales, and a head beside
// the embedding that it is tied to. Errors are those of files that cannot be read, and kUnsupported
// for a family of which it is not known how the engine holds it; what the engine would refuse or
// load wrongly is a finding.
Result<ServeReport> JudgeServing(const ServeRequest& request);

}  // namespace nxdkit::ops
