// From a distributed checkpoint to an NxD tag: see named_state.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::training {

// A checkpoint as a tag keeps it; nothing without an optimizer. In the form that it has a record
// of, or in that of NxD's own trainers: two groups where options differ, master weights beside the
// weights. `order`: which parameters make the second group, when the user says so. `notes`: what
// has no counterpart. kUnsupported when the parameters' options make other groups.
Status ToNumberedState(BoundArtifact& source, std::optional<nxd::GroupRule> order,
                       std::vector<std::string>& notes);

}  // namespace nxdkit::training
