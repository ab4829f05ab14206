// PRIVATE to formats/kinds/megatron: an opened checkpoint of Megatron-Core. Once its keys are those
// of the model's parameters, code that reads distributed checkpoints reads it too, as one.
#pragma once

#include <memory>
#include <string>

#include "formats/kinds/dcp/read_dcp.h"
#include "formats/megatron/common_state.h"
#include "formats/megatron/find.h"

namespace nxdkit::kinds {

struct MegatronState : DcpState {
  MegatronState(std::shared_ptr<const dcp::Folder> opened, const MegatronState* from)
      : DcpState(std::move(opened)) {
    if (!from) return;
    found = from->found;
    common = from->common;
    optimizer_common = from->optimizer_common;
    stored = from->stored;
  }
  std::shared_ptr<const DcpState> With(std::shared_ptr<const dcp::Folder> changed) const override {
    return std::make_shared<const MegatronState>(std::move(changed), this);
  }
  megatron::Found found;
  megatron::CommonState common;               // of the model's folder
  megatron::CommonState optimizer_common;     // of the optimizer's folder, usually the same
  std::shared_ptr<const dcp::Folder> stored;  // under Megatron's own keys
};

// nullptr if it is not a Megatron checkpoint.
inline const MegatronState* MegatronStateOf(const Artifact& artifact) {
  return dynamic_cast<const MegatronState*>(artifact.state.get());
}

}  // namespace nxdkit::kinds
