// PRIVATE to trainer/loop. Creates the generators, our engine here or in workers or another
// program's, and the place for their weights.
#pragma once

#include "trainer/loop/setup.h"

namespace nxdkit::trainer {

// The sizes of the engine, checked against its bundle if there is one; it is not started.
Result<EngineShape> ShapeOfEngine(const SetupContext& setup, const DecoderConfig& model);

// Creates the bundle or the folder of weights, and starts the workers, for an engine of that shape.
// `files` accompany the weights.
Status MakeEngines(const SetupContext& setup, const RunModels& models, const TextFiles& files,
                   RunEngines& engines);

}  // namespace nxdkit::trainer
