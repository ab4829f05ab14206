// A running engine's own digests against what it should hold.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "formats/artifact/finding.h"
#include "formats/ops/digest/neuron.h"

namespace nxdkit::ops {

// The digests that are expected of the ranks' parameters, 64 digits each, by the keys under which
// the engine answers (vllm::CheckerKey), rank by rank in the order of the model.
using KeyedDigests = std::vector<std::pair<std::string, std::string>>;
KeyedDigests KeyedDigestsOf(const std::vector<EngineParam>& params);
// By vllm_neuron::ParamKey.
KeyedDigests KeyedDigestsOf(const std::vector<EngineParam>& params,
                            const vllm_neuron::Geometry& geometry);

// The engines whose parameters are predicted.
using EngineGeometry = std::variant<vllm::Geometry, vllm_neuron::Geometry>;
// The refusals of PredictEngine, without reading weights.
Status CheckPredictable(const models::Model& model, const EngineGeometry& geometry, Dtype dtype);
// The answer that an engine is to give: as DigestForEngine, DigestForNeuron.
Result<KeyedDigests> PredictEngine(const BoundArtifact& artifact, const EngineGeometry& geometry,
                                   Dtype dtype, const RunOptions& run);
// "sha256:..." of all of them, in the order of their keys.
std::string DigestOfAll(KeyedDigests digests);

struct EngineComparison {
  size_t compared = 0;  // parameters of ranks that are equal
  // Those of which the engine keeps no bytes as they were loaded: empty ones, whose weight a kernel
  // has packed, and beside such ones experts, which it reorders. Neither equal nor different.
  size_t not_covered = 0;
  std::vector<Finding> findings;  // check "engine", in the order of what is expected
};

// In both directions: what the engine lacks, and what it has beyond.
EngineComparison CompareEngine(const KeyedDigests& expected,
                               const std::map<std::string, std::string>& answered);

struct EngineCheck : EngineComparison {
  EngineDigests expected;
  vllm::Geometry geometry;
};

// What an engine answered (vllm::AskChecksums) against the artifact. Number of ranks and
// distribution of experts are taken from the answer; request.geometry does not count. kUnsupported
// for an answer of several pipeline stages or data parallel ranks; else as DigestForEngine.
Result<EngineCheck> CheckEngine(const EngineRequest& request,
                                const std::map<std::string, std::string>& answered);

}  // namespace nxdkit::ops
