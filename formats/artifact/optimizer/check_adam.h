// PRIVATE to formats/artifact/optimizer: which optimizers are carried from one form to the other.
#pragma once

#include "formats/artifact/bind.h"

namespace nxdkit::ops {

// kUnsupported, naming the parameter, for state that lacks one of Adam's numbers.
Status CheckAdam(const BoundArtifact& source);

}  // namespace nxdkit::ops
