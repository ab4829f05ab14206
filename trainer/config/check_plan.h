// PRIVATE to trainer/config. Which cores train and which generate; whether batches divide evenly
// over updates, ranks, micro-batches and engines; the compiled engine's sizes.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/config/checker.h"
#include "trainer/config/plan.h"

namespace nxdkit::trainer {

void CheckCores(Checker& check, const RunPlan& plan);
// `tp` and `positions`: what the engine is compiled for; nullopt: not known.
void CheckCompiled(Checker& check, const RunPlan& plan, std::optional<int64_t> tp,
                   std::optional<int64_t> positions);
void CheckBatches(Checker& check, const RunPlan& plan);

}  // namespace nxdkit::trainer
