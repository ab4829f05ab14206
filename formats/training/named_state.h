// Between the two ways in which training keeps its numbers.
//
//   numbered  an NxD tag: weights in the dtype of the module, and beside them the optimizer's state
//             with the F32 master weights; a step may be a plain number
//   named     a distributed checkpoint: weights are the master weights, or these are beside them;
//             every step is a tensor
//
// Here from numbered to named; numbered_state.h is the way back. A bound artifact is turned into
// one that another format is planned from: nothing is read but steps and, of master weights, a
// sample that is compared with the weights; nothing is written.
#pragma once

#include <string>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::training {

// A tag as a checkpoint keeps it; nothing without an optimizer. Where parameters have master
// weights, these are the weights; one that has none among them is its own, in F32. A parameter that
// has no state yet gets zeros, as Adam begins with.
// So does a checkpoint that has master weights beside its weights.
// `notes`: what changes by it; master weights that are not those of their weights are a warning of
// the artifact. kUnsupported when the optimizer is not of Adam's kind.
Status ToNamedState(BoundArtifact& source, std::vector<std::string>& notes);

// For a comparison: a tag as a checkpoint keeps it, and a checkpoint as one that was made of a tag,
// whose every step is a tensor, and which has zeros where there is no state yet.
Status ToComparedState(BoundArtifact& source, std::vector<std::string>& notes);

}  // namespace nxdkit::training
