// Which optimizers are carried from one form to the other.
#pragma once

#include <string_view>

#include "formats/artifact/bound.h"

namespace nxdkit::training {

// What Adam keeps of a parameter, in its order.
inline constexpr std::string_view kAdamEntries[] = {"step", "exp_avg", "exp_avg_sq"};

// kCorrupt, naming the first one, for a parameter of which less is kept than of others: a part of
// the state was lost. Of a parameter that was not trained nothing is kept.
Status CheckEven(const BoundArtifact& checkpoint);

// kUnsupported, naming the parameter, for state that lacks one of Adam's numbers.
Status CheckAdam(const BoundArtifact& source);

}  // namespace nxdkit::training
