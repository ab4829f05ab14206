// PRIVATE to formats/kinds: where a distributed checkpoint stores every parameter.
#pragma once

#include "formats/artifact/bound.h"

namespace nxdkit::ops {

// The part of Bind that is about a DCP folder; with hints.optimizer the optimizer's state too.
Status BindDcp(BoundArtifact& out, const InputHints& hints);

}  // namespace nxdkit::ops
