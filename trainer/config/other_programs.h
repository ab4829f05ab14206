// PRIVATE to trainer/config. Recognises configurations of other programs by their keys: the program
// is named, instead of every unknown key.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::trainer {

// `keys`: the top-level names of the configuration, "actor_rollout_ref", "data". kUnsupported with
// the program's name and advice; OkStatus for EasyR1's form and for unknown ones.
Status RefuseOtherPrograms(std::span<const std::string> keys);

// The same for text that is not a configuration at all: a shell script.
Status RefuseOtherTexts(std::string_view text);

}  // namespace nxdkit::trainer
