// PRIVATE to formats: a rollout bundle as an output.
#pragma once

#include <optional>
#include <string>

#include "formats/kinds/output.h"
#include "formats/rollout/bundle.h"

namespace nxdkit::kinds {

class RolloutOutput : public Output {
 public:
  using Output::Output;
  Status Plan(OutputBuilder& builder) const override;
  Result<std::optional<hardware::Fit>> FitOn(const BoundArtifact& source,
                                             const FitQuestion& question) const override;

  rollout::NeuronConfig neuron;
  std::string neuron_text;                // neuron_config.json as it will be written
  std::string cpu_plan_text;              // nxdkit-cpu-plan.json; "" for none
  std::optional<rollout::Bundle> bundle;  // source of the blob and settings
  bool only_weights = false;              // only rank files, without a folder
};

// The note on a bundle that is made without model.pt.
inline constexpr char kBlobMissing[] =
    "the compiled blob (model.pt) is missing: neuron-export compiles one, --bundle takes one over";

// nullptr if the output is not a rollout bundle.
const RolloutOutput* AsRollout(const Output& output);

Result<std::unique_ptr<Output>> DecideRollout(const BoundArtifact& source,
                                              const OutputOptions& options);

}  // namespace nxdkit::kinds
