// PRIVATE to tools/: facts of what training leaves beside whole models.
#pragma once

#include "tools/inspect/fact.h"

namespace nxdkit::tool {

void AddAdapter(Facts& facts, const std::optional<ops::AdapterFacts>& adapter);
void AddOptimizer(Facts& facts, const std::optional<ops::OptimizerFacts>& optimizer);
void AddTrainer(Facts& facts, const std::optional<ops::TrainerFacts>& trainer);
void AddDelta(Facts& facts, const std::optional<ops::DeltaFacts>& delta);

}  // namespace nxdkit::tool
