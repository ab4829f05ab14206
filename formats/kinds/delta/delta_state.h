// PRIVATE to formats: what is known of a delta beside what all artifacts have.
#pragma once

#include <memory>

#include "formats/artifact/bound.h"
#include "formats/delta/delta.h"

namespace nxdkit::ops {

struct DeltaState : KindState {
  DeltaState(std::shared_ptr<const delta::Delta> opened, Artifact changed)
      : delta(std::move(opened)), base(std::move(changed)) {}
  std::shared_ptr<const delta::Delta> delta;  // the artifact's files are those of the base and it
  Artifact base;
};

// nullptr where it is no delta.
const DeltaState* DeltaStateOf(const Artifact& artifact);
std::shared_ptr<const delta::Delta> DeltaOf(const Artifact& artifact);

}  // namespace nxdkit::ops
