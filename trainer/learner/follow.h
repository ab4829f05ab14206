// A process of a mesh that another one leads (trainer/learner/followers.h).
#pragma once

#include "trainer/comm/transport.h"

namespace nxdkit::trainer {

// Serves process 0 until it says that the run is over. The models' files must be where process 0
// has them: a shared folder, or copies. An error ends this process, and with it the run.
Status Follow(Transport& transport);

}  // namespace nxdkit::trainer
