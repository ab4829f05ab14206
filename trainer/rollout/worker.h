// The other side of a WorkerPool: an engine in a process of its own.
#pragma once

#include "trainer/rollout/rollout_engine.h"

namespace nxdkit::trainer {

// Reads what the trainer asks from `in` and answers on `out` (frames of trainer/rollout/wire.h)
// until `in` ends. `make` makes what is loaded; the engine that is there is kept for the next load
// of its kind. kIo and kCorrupt when the trainer cannot be understood; what goes wrong with an
// engine is answered, not returned. Nothing else may write to `out`.
Status RunRolloutWorker(int in, int out, const EngineMaker& make = MakeOwnEngine);

}  // namespace nxdkit::trainer
