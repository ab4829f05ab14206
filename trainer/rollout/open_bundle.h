// PRIVATE to trainer/rollout. Opens a bundle and checks it against its own plan, the training
// configuration and the abilities of this engine, before any weights are read.
#pragma once

#include "formats/artifact/bound.h"
#include "trainer/model/decoder_config.h"
#include "trainer/model/param_table.h"
#include "trainer/rollout/engine.h"

namespace nxdkit::trainer {

struct OpenedBundle {
  artifact::BoundArtifact artifact;  // holds the bundle's shared lock
  DecoderConfig config;
  std::vector<ParamTable> tables;  // [tp]
  EngineFacts facts;               // those known before the weights are
};

// Errors as Engine::Load.
Result<OpenedBundle> OpenBundleForEngine(const EngineOptions& options);

}  // namespace nxdkit::trainer
