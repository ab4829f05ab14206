// PRIVATE to formats/kinds: a rollout bundle, opened.
#pragma once

#include "formats/artifact/artifact.h"

namespace nxdkit::ops {

Status OpenRollout(Artifact& artifact, const InputHints& hints);

}  // namespace nxdkit::ops
