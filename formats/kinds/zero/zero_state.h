// PRIVATE to formats/kinds/zero: an opened tag of DeepSpeed. Code that reads distributed
// checkpoints reads it too, as one.
#pragma once

#include <memory>

#include "formats/kinds/dcp/read_dcp.h"
#include "formats/zero/open.h"

namespace nxdkit::kinds {

struct ZeroState : DcpState {
  ZeroState(std::shared_ptr<const dcp::Folder> opened, zero::Facts found)
      : DcpState(std::move(opened)), facts(std::move(found)) {}
  std::shared_ptr<const DcpState> With(std::shared_ptr<const dcp::Folder> changed) const override {
    return std::make_shared<const ZeroState>(std::move(changed), facts);
  }
  zero::Facts facts;
};

// nullptr if it is not a DeepSpeed tag.
inline const zero::Facts* ZeroFactsOf(const Artifact& artifact) {
  const auto* state = dynamic_cast<const ZeroState*>(artifact.state.get());
  return state ? &state->facts : nullptr;
}

}  // namespace nxdkit::kinds
