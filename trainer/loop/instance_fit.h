// Whether a run fits the cores of a Neuron instance, checked before anything is loaded: training
// with the models next to it, and the rollout engine, on the same cores or on others.
#pragma once

#include <vector>

#include "formats/hardware/fit.h"
#include "trainer/config/config.h"
#include "trainer/config/plan.h"
#include "trainer/loop/memory_estimate.h"
#include "trainer/model/decoder_config.h"

namespace nxdkit::trainer {

// The fit of training, then that of the engine unless it is elsewhere: the number that
// neuron-export reports for its bundle. `critic`: nullptr if there is none. kUnsupported as
// MakeParamTable and RolloutUseOf.
Result<std::vector<hardware::Fit>> FitInstance(const hardware::Instance& instance,
                                               const Config& config, const RunPlan& plan,
                                               const DecoderConfig& model,
                                               const EngineShape& engine,
                                               const DecoderConfig* critic);

}  // namespace nxdkit::trainer
