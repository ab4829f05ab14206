// The optimizers that can be converted from one form to the other.
#pragma once

#include <string_view>

#include "formats/artifact/bound.h"

namespace nxdkit::training {

// Adam's entries for a parameter, in its order.
inline constexpr std::string_view kAdamEntries[] = {"step", "exp_avg", "exp_avg_sq"};

// kCorrupt, naming the first one, for a parameter with fewer entries than others: a part of the
// state was lost. A parameter that was not trained has none.
Status CheckEven(const BoundArtifact& checkpoint);

// kUnsupported, naming the parameter, for state that lacks one of Adam's entries.
Status CheckAdam(const BoundArtifact& source);

}  // namespace nxdkit::training
