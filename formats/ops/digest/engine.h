// The digests that a running vLLM engine reports for its parameters, computed before it has loaded
// anything: from its layout (formats/vllm) over the bytes of any artifact.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/run.h"
#include "formats/vllm/engine_layout.h"
#include "lib/hash/digest.h"

namespace nxdkit::ops {

struct EngineSource {
  std::string path;
  const Kind* kind = nullptr;  // null: recognised
  InputHints hints;
  std::optional<Dtype> dtype;  // the engine's; nullopt: vllm::EngineDtype
  RunOptions run;
};

struct EngineRequest : EngineSource {
  vllm::Geometry geometry;
};

struct EngineParam {
  int rank = 0;
  std::string name;  // the engine's
  Shape shape;
  Sha256Bytes digest{};  // of its packed bytes, in the engine's dtype
};

struct EngineDigests : Said {
  const Kind* kind = nullptr;
  std::string model_type;
  Dtype dtype = Dtype::kBF16;
  uint64_t elements = 0;  // of the model
  std::vector<EngineParam> params;
  std::vector<std::string> left_out;  // tensors that are not parameters
};

// Opens, checks the copies, and digests.
Result<EngineDigests> DigestForEngine(const EngineRequest& request);

// The tensors of one rank of an engine.
using RankLayout = std::function<Result<std::vector<TensorLayout>>(const models::Model&, int rank)>;

// kUsage for a rank that does not exist.
RankLayout LayoutOfEngine(const vllm::Geometry& geometry);
// One rank's tensors of an artifact, by a layout. kUnsupported for a model without a table, and for
// an adapter.
Result<std::vector<TensorLayout>> TensorsOfRank(const BoundArtifact& artifact,
                                                const RankLayout& layout, int rank);

// The same for any engine: the tensors of its ranks, 0 to `ranks` - 1, by `layout`.
Result<EngineDigests> DigestRanks(const EngineSource& source, int ranks, const RankLayout& layout);
Result<std::vector<EngineParam>> DigestRanks(const BoundArtifact& artifact, int ranks,
                                             const RankLayout& layout, Dtype dtype,
                                             const RunOptions& run);

// Rank by rank, in the order of the model. Every parameter is read once from its primary place, and
// rounded to `dtype` as nxd-convert rounds. kUnsupported as vllm::RankTensors, and for a model
// without a table; kCorrupt for a parameter that is not stored: an engine does not report it. The
// result does not depend on run.jobs.
Result<std::vector<EngineParam>> DigestForEngine(const BoundArtifact& artifact,
                                                 const vllm::Geometry& geometry, Dtype dtype,
                                                 const RunOptions& run);

}  // namespace nxdkit::ops
