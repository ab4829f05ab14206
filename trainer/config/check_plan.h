// PRIVATE to trainer/config. The allocation of cores to training and generation; even division of
// batches over updates, ranks, micro-batches and engines; the compiled engine's sizes.
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/config/checker.h"
#include "trainer/config/plan.h"

namespace nxdkit::trainer {

void CheckCores(Checker& check, const RunPlan& plan);
// `tp` and `positions`: the sizes the engine is compiled for; nullopt: unknown.
void CheckCompiled(Checker& check, const RunPlan& plan, std::optional<int64_t> tp,
                   std::optional<int64_t> positions);
void CheckBatches(Checker& check, const RunPlan& plan);

}  // namespace nxdkit::trainer
