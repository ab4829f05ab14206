// PRIVATE to formats: a distributed checkpoint as an output: names and mesh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "formats/dcp/options.h"
#include "formats/kinds/output.h"

namespace nxdkit::kinds {

class DcpOutput : public Output {
 public:
  using Output::Output;
  Status Plan(OutputBuilder& builder) const override;
  StateLayout State() const override { return {nxd::OptimizerStyle::kNamed, 1}; }

  enum class Form : uint8_t {
    kFolder,        // all of it in one distributed checkpoint
    kTransformers,  // weights as shards of safetensors, the optimizer in a folder beside them
  };
  Form form = Form::kFolder;
  dcp::Style style = dcp::Style::kHf;
  struct Names {
    std::string prefix;  // before those of the weights: "model."
    std::string state_prefix;
  };
  // The names of a checkpoint, which stay; options, too, are then what it has.
  std::optional<Names> names;
  dcp::Mesh mesh;
};

// The mesh that tensors are cut over: --mesh or --chunks.
Result<dcp::Mesh> MeshOf(const Arguments& options);

// kUnsupported for a model that the style has no names for.
Result<std::unique_ptr<Output>> DecideDcp(const BoundArtifact& source,
                                          const OutputOptions& options);

}  // namespace nxdkit::kinds
