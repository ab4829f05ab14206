// Is an artifact what it claims to be: structure, meaning, and equality with another one.
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
  // Every element is looked at, for NaNs, infinities and zeros; false: what is stored once is read
  // only where something else needs it.
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
  std::vector<std::string> checks;      // what was found good, one line each
  std::vector<Finding> findings;        // what was not; empty: good
  artifact::DifferingParams differing;  // from what it was compared with
  rollout::VersionStamp stamp;          // of optimum-neuron's bundle: what a loader must have
  std::vector<Loader> loaders;
};

// An unreadable artifact is an Error; one that reads but is wrong gives findings.
Result<VerifyReport> Verify(const VerifyRequest& request);

}  // namespace nxdkit::ops
