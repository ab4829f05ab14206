// PRIVATE to trainer/rollout. A bundle opened and held against its own plan, the configuration of
// the training and this engine's means, before any weights are read.
#pragma once

#include "formats/artifact/bind.h"
#include "formats/rollout/cpu_plan.h"
#include "trainer/model/decoder_config.h"
#include "trainer/model/param_table.h"
#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

struct OpenedBundle {
  ops::BoundArtifact artifact;  // holds the bundle's shared lock
  rollout::CpuPlan plan;
  DecoderConfig config;
  std::vector<ParamTable> tables;  // [tp]
  Dtype dtype = Dtype::kBF16;      // of weights and cache
};

// Errors as Engine::Load.
Result<OpenedBundle> OpenBundleForEngine(const EngineOptions& options);

// What of EngineFacts is known before the weights are.
EngineFacts FactsOf(const OpenedBundle& bundle);

}  // namespace nxdkit::trainer
