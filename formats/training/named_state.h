// Converts between the two forms in which training stores its numbers.
//
//   numbered  an NxD tag: weights in the dtype of the module, and next to them the optimizer's
//             state with the F32 master weights; a step may be a plain number
//   named     a distributed checkpoint: weights are the master weights, or these are next to them;
//             every step is a tensor
//
// Here from numbered to named; numbered_state.h is the way back. A bound artifact becomes one from
// which another format is planned: it reads only steps and, of master weights, a sample that is
// compared with the weights; nothing is written.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::training {

// Turns a tag into the form of a checkpoint by names; does nothing without an optimizer. Master
// weights become the weights; a parameter without one keeps its own, in F32. A parameter that has
// no state yet gets zeros, as Adam begins. Applies to a checkpoint with master weights next to its
// weights too. `notes`: the changes; master weights that do not belong to their weights are a
// warning of the artifact. kUnsupported if the optimizer is not of Adam's kind.
Status ToNamedState(BoundArtifact& source, std::vector<std::string>& notes);

// For a comparison: a tag in the form of a checkpoint by names, and such a checkpoint as if made
// from a tag: every step is a tensor, and missing state is zeros.
Status ToComparedState(BoundArtifact& source, std::vector<std::string>& notes);

}  // namespace nxdkit::training
