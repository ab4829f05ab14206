// PRIVATE to formats: an NxD set, or a tag of training, as an output.
#pragma once

#include "formats/kinds/output.h"
#include "formats/nxd/nxd_layout.h"

namespace nxdkit::kinds {

class NxdOutput : public Output {
 public:
  using Output::Output;
  Status Plan(OutputBuilder& builder) const override;
  void Tell(InputHints& hints) const override;
  Status CheckName(const std::string& path) const override;
  std::optional<nxd::LoraSharing> Sharing() const override { return nxd::SharingOf(geometry); }
  StateLayout State() const override { return {optimizer_style, dp}; }
  Result<std::optional<hardware::Fit>> FitOn(const BoundArtifact& source,
                                             const FitQuestion& question) const override;

  nxd::Geometry geometry;
  bool xser = false;
  bool aliases = false;  // also stores the family's aliases: lm_head of a tied model
  // The output is a tag from which training continues: the form of its module, and so of the source
  // (tied pair stored twice, gate and up apart, xser), is kept; scheduler and user content are
  // copied.
  bool training_tag = false;
  bool optimum = false;  // the tag is `shards` of an optimum-neuron checkpoint
  nxd::OptimizerStyle optimizer_style = nxd::OptimizerStyle::kZero1;
  int dp = 1;
};

Result<std::unique_ptr<Output>> DecideNxd(const BoundArtifact& source,
                                          const OutputOptions& options);

}  // namespace nxdkit::kinds
