// The other side of a WorkerPool: an engine in a separate process.
#pragma once

#include "trainer/rollout/rollout_engine.h"

namespace nxdkit::trainer {

// Reads the trainer's requests from `in` and answers on `out` (frames of trainer/rollout/wire.h)
// until `in` ends. `make` creates the engine to load; an existing engine is kept for the next load
// of its kind. kIo and kCorrupt when the trainer's bytes make no sense; failures of an engine are
// answered, not returned. Nothing else may write to `out`.
Status RunRolloutWorker(int in, int out, const EngineMaker& make = MakeOwnEngine);

}  // namespace nxdkit::trainer
