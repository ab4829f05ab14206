// PRIVATE to trainer/config. Configurations of other programs, known by their keys: what they are
// is said, in place of all the keys that are not known.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::trainer {

// `keys`: the first names of what the configuration says, "actor_rollout_ref", "data". kUnsupported
// with the program's name and what to do; OkStatus for EasyR1's form, and for what nobody knows.
Status RefuseOtherPrograms(std::span<const std::string> keys);

// The same of a text that is no configuration at all: a shell script.
Status RefuseOtherTexts(std::string_view text);

}  // namespace nxdkit::trainer
