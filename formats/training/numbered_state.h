// From a distributed checkpoint to an NxD tag: see named_state.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::training {

// Turns a checkpoint by names into the form of a tag; does nothing without an optimizer. The form
// is the recorded one, or that of NxD's own trainers: two groups if options differ, master weights
// next to the weights. `order`: which parameters make the second group, if the user says so.
// `notes`: state without a counterpart. kUnsupported if the parameters' options make other groups.
Status ToNumberedState(BoundArtifact& source, std::optional<nxd::GroupRule> order,
                       std::vector<std::string>& notes);

}  // namespace nxdkit::training
