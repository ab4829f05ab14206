// PRIVATE to formats/kinds/fsdp: an opened rank set. Code that reads distributed checkpoints reads
// it too, as one.
#pragma once

#include <memory>

#include "formats/fsdp/open.h"
#include "formats/kinds/dcp/read_dcp.h"

namespace nxdkit::kinds {

struct FsdpState : DcpState {
  FsdpState(std::shared_ptr<const dcp::Folder> opened, fsdp::Facts found)
      : DcpState(std::move(opened)), facts(std::move(found)) {}
  std::shared_ptr<const DcpState> With(std::shared_ptr<const dcp::Folder> changed) const override {
    return std::make_shared<const FsdpState>(std::move(changed), facts);
  }
  fsdp::Facts facts;
};

// nullptr if it is not a rank set.
inline const fsdp::Facts* FsdpFactsOf(const Artifact& artifact) {
  const auto* state = dynamic_cast<const FsdpState*>(artifact.state.get());
  return state ? &state->facts : nullptr;
}

}  // namespace nxdkit::kinds
