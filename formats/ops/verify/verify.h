// Verifies that an artifact is what it claims to be: structure, meaning, and equality with another
// one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/finding.h"
#include "formats/artifact/run.h"
#include "formats/kinds/table.h"
#include "formats/rollout/installed.h"
#include "formats/rollout/neuron_config.h"

namespace nxdkit::ops {

struct VerifyRequest {
  std::string path;
  const Kind* kind = nullptr;  // null: recognised
  InputHints hints;
  std::optional<std::string> against;  // another artifact to compare with
  const Kind* against_kind = nullptr;
  InputHints against_hints;
  std::vector<rollout::Installation> installations;  // that could load a bundle
  // Look at every element, for NaNs, infinities and zeros; false: values stored once are read only
  // if another check needs them.
  bool values = true;
  RunOptions run;
};

// An environment in which a bundle could be loaded.
struct Loader {
  rollout::Installation at;
  std::string refusal;  // "has neuronx-cc 2.22"; "": it accepts the bundle
};

struct VerifyReport : Said {
  const Kind* kind = nullptr;
  std::string model_type;
  uint64_t tensors = 0;
  uint64_t parameters = 0;  // elements of the model
  uint64_t ranks = 0;
  std::vector<std::string> checks;      // checks that passed, one line each
  std::vector<Finding> findings;        // those that failed; empty: the artifact is good
  artifact::DifferingParams differing;  // from the other artifact
  rollout::VersionStamp stamp;          // of optimum-neuron's bundle: a loader must have it
  std::vector<Loader> loaders;
};

// An unreadable artifact is an Error; a readable one with faults gives findings.
Result<VerifyReport> Verify(const VerifyRequest& request);

}  // namespace nxdkit::ops
