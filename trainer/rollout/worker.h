// The other side of a WorkerPool: an engine in a process of its own.
#pragma once

#include "lib/base/error.h"

namespace nxdkit::trainer {

// Reads what the trainer asks from `in` and answers on `out` (frames of trainer/rollout/wire.h)
// until `in` ends. Each load destroys the engine that was there first. kIo and kCorrupt when the
// trainer cannot be understood; what goes wrong with an engine is answered, not returned. Nothing
// else may write to `out`.
Status RunRolloutWorker(int in, int out);

}  // namespace nxdkit::trainer
