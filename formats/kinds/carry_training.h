// PRIVATE to formats/kinds: files of a training run that go along as they are.
#pragma once

#include <string>

#include "formats/kinds/builder.h"

namespace nxdkit::ops {

// Copies `folder`/`name`, where it is there, to `to` in the output. Opaque to us: what such files
// hold does not depend on the layout.
Status CarryTrainingFile(OutputBuilder& builder, const std::string& folder, const std::string& name,
                         std::string to);

}  // namespace nxdkit::ops
