// PRIVATE to trainer/loop. The models of a run: first their shapes, and after everything else their
// weights.
#pragma once

#include "trainer/loop/setup.h"

namespace nxdkit::trainer {

// Opens the models that the configuration names, and holds their shapes against it.
Status OpenModels(const SetupContext& setup, RunModels& models);

// Reads the weights, and checks every element of them, into meshes of ranks.
Status LoadModels(const SetupContext& setup, RunModels& models);

}  // namespace nxdkit::trainer
