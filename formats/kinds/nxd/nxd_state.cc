#include "formats/kinds/nxd/nxd_state.h"

namespace nxdkit::ops {

const NxdState* NxdStateOf(const Artifact& artifact) {
  return dynamic_cast<const NxdState*>(artifact.state.get());
}

const NxdLayout* NxdLayoutOf(const BoundArtifact& bound) {
  return dynamic_cast<const NxdLayout*>(bound.state.get());
}

}  // namespace nxdkit::ops
