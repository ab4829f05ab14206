// PRIVATE to formats/kinds: the rank files of vLLM with NKIPy as an output.
#pragma once

#include <memory>

#include "formats/kinds/output.h"
#include "formats/nkipy/layout.h"

namespace nxdkit::kinds {

class NkipyOutput : public Output {
 public:
  using Output::Output;
  Status Plan(OutputBuilder& builder) const override;

  nkipy::Geometry geometry;
};

Result<std::unique_ptr<Output>> DecideNkipy(const BoundArtifact& source,
                                            const OutputOptions& options);

}  // namespace nxdkit::kinds
