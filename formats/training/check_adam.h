// Which optimizers are carried from one form to the other.
#pragma once

#include <string_view>

#include "formats/artifact/bound.h"

namespace nxdkit::training {

// What Adam keeps of a parameter, in its order.
inline constexpr std::string_view kAdamEntries[] = {"step", "exp_avg", "exp_avg_sq"};

// kUnsupported, naming the parameter, for state that lacks one of Adam's numbers.
Status CheckAdam(const BoundArtifact& source);

}  // namespace nxdkit::training
