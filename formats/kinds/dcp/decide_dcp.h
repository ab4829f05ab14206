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
    kFolder,        // everything in one distributed checkpoint
    kTransformers,  // weights as safetensors shards, the optimizer in a folder next to them
  };
  Form form = Form::kFolder;
  dcp::Style style = dcp::Style::kHf;
  struct Names {
    std::string prefix;  // before the names of the weights: "model."
    std::string state_prefix;
  };
  // The names in the source checkpoint, if they are kept; options are then kept too.
  std::optional<Names> names;
  dcp::Mesh mesh;
};

// The mesh over which tensors are cut: --mesh or --chunks.
Result<dcp::Mesh> MeshOf(const Arguments& options);

// kUnsupported for a model for which the style has no names.
Result<std::unique_ptr<Output>> DecideDcp(const BoundArtifact& source,
                                          const OutputOptions& options);

}  // namespace nxdkit::kinds
