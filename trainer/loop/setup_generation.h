// PRIVATE to trainer/loop. Who generates: our engine here or in workers, or another program's, and
// where its weights are written.
#pragma once

#include "trainer/loop/setup.h"

namespace nxdkit::trainer {

// The sizes of the engine, held against its bundle where there is one; it is not started.
Result<EngineShape> ShapeOfEngine(const SetupContext& setup, const DecoderConfig& model);

// Makes the bundle or the folder of weights, and starts the workers, for an engine of that shape.
// `files` go with the weights.
Status MakeEngines(const SetupContext& setup, const RunModels& models, const TextFiles& files,
                   RunEngines& engines);

}  // namespace nxdkit::trainer
