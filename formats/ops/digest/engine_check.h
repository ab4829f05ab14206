// Compares a running engine's own digests with the expected ones.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "formats/artifact/finding.h"
#include "formats/ops/digest/neuron.h"

namespace nxdkit::ops {

// The expected digests of the ranks' parameters, 64 digits each, by the engine's keys
// (vllm::CheckerKey), rank by rank in the order of the model.
using KeyedDigests = std::vector<std::pair<std::string, std::string>>;
KeyedDigests KeyedDigestsOf(const std::vector<EngineParam>& params);
// Keyed by vllm_neuron::ParamKey.
KeyedDigests KeyedDigestsOf(const std::vector<EngineParam>& params,
                            const vllm_neuron::Geometry& geometry);

// The engines whose parameters can be predicted.
using EngineGeometry = std::variant<vllm::Geometry, vllm_neuron::Geometry>;
// The errors of PredictEngine, without reading weights.
Status CheckPredictable(const models::Model& model, const EngineGeometry& geometry, Dtype dtype);
// The answer expected of an engine: as DigestForEngine, DigestForNeuron.
Result<KeyedDigests> PredictEngine(const BoundArtifact& artifact, const EngineGeometry& geometry,
                                   Dtype dtype, const RunOptions& run);
// "sha256:..." of all of them, in the order of their keys.
std::string DigestOfAll(KeyedDigests digests);

struct EngineComparison {
  size_t compared = 0;  // parameters per rank that are equal
  // Parameters whose loaded bytes the engine does not keep: empty ones, whose weight a kernel has
  // packed, and next to such ones experts, which it reorders. Neither equal nor different.
  size_t not_covered = 0;
  std::vector<Finding> findings;  // check "engine", in the order of the expected ones
};

// In both directions: parameters that the engine lacks, and those that it has in addition.
EngineComparison CompareEngine(const KeyedDigests& expected,
                               const std::map<std::string, std::string>& answered);

struct EngineCheck : EngineComparison {
  EngineDigests expected;
  vllm::Geometry geometry;
};

// Compares an engine's answer (vllm::AskChecksums) with the artifact. The number of ranks and the
// distribution of experts come from the answer; request.geometry is ignored. kUnsupported for an
// answer of several pipeline stages or data parallel ranks; else as DigestForEngine.
Result<EngineCheck> CheckEngine(const EngineRequest& request,
                                const std::map<std::string, std::string>& answered);

}  // namespace nxdkit::ops
