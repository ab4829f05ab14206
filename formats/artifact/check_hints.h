// PRIVATE to formats. Whether what the user says of an input can be said of its kind.
#pragma once

#include <string>

#include "formats/artifact/artifact.h"

namespace nxdkit::ops {

// kUsage for a tag, weights or sizes of ranks that have no meaning for this kind: who said it takes
// the path for something else. Of a delta they are its base's.
Status CheckHints(Kind kind, const std::string& path, const InputHints& hints);

// The same for what holds no model's weights: nothing can be said of it.
Status CheckNoHints(const std::string& path, const InputHints& hints);

}  // namespace nxdkit::ops
