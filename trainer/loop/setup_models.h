// PRIVATE to trainer/loop. The models of a run: first their shapes, and after everything else their
// weights.
#pragma once

#include "trainer/loop/setup.h"

namespace nxdkit::trainer {

// What the configuration names, opened and held against it; the meshes are not made.
Status OpenModels(const SetupContext& setup, RunModels& models);

// Reads the weights, and checks every element of them, into meshes of ranks.
Status LoadModels(const SetupContext& setup, RunModels& models);

}  // namespace nxdkit::trainer
