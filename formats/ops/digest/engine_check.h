// A running engine's own digests against what it should hold.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/artifact/finding.h"
#include "formats/ops/digest/engine.h"

namespace nxdkit::ops {

struct EngineCheck {
  EngineDigests expected;
  vllm::Geometry geometry;
  size_t compared = 0;  // parameters of ranks
  // Those of which the engine keeps no bytes as they were loaded: empty ones, whose weight a kernel
  // has packed, and beside such ones experts, which it reorders. Neither equal nor different.
  size_t not_covered = 0;
  std::vector<Finding> findings;  // check "engine", rank by rank
};

// What an engine answered (vllm::AskChecksums) against the artifact. Number of ranks and
// distribution of experts are taken from the answer; request.geometry does not count. kUnsupported
// for an answer of several pipeline stages or data parallel ranks; else as DigestForEngine.
Result<EngineCheck> CheckEngine(const EngineRequest& request,
                                const std::map<std::string, std::string>& answered);

}  // namespace nxdkit::ops
