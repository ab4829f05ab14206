// A kind that the product does not know: a folder of .npy files, one for each parameter, named
// after it; config.json may be next to them. It can be read, but not written.
#pragma once

#include "formats/kinds/kind.h"

namespace nxdkit::kinds {

extern const Kind kNpy;

}  // namespace nxdkit::kinds
