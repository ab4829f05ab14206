// What a conversion is to write: what was asked for, and the layout that follows from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/bind.h"
#include "formats/dcp/options.h"
#include "formats/rollout/installed.h"

namespace nxdkit::ops {

// What the user says of the output; absent: decided from the source. Of the layout a rollout bundle
// has tp only.
struct OutputOptions : nxd::LayoutOptions {
  std::optional<int> dp;  // of the optimizer's state
  std::optional<bool> xser;
  // The output is an NxD tag that training goes on from: what its module has, and the source's is
  // like (tied pair stored twice, gate and up apart, xser), stays so; scheduler and user content
  // are carried over.
  bool training_tag = false;
  // Of the instance it is made for, where neither `hardware` nor the naming decides.
  std::optional<models::Hardware> hardware_if_unsaid;
  // The output is a training checkpoint of optimum-neuron (formats/nxd/optimum.h), or is none;
  // absent: a training tag is what its source is, everything else is none.
  std::optional<bool> optimum;
  std::optional<rollout::Flavor> flavor;
  std::optional<int64_t> batch_size, sequence_length;
  std::optional<bool> fused_qkv;
  std::optional<bool> on_device_sampling;
  // What is written of them into neuron_config.json; and where else to look for them.
  std::optional<std::string> optimum_version, compiler_version;
  std::vector<rollout::Installation> installations;
  // A compiled bundle to take model.pt and neuron_config.json from.
  std::optional<std::string> bundle;
  bool cpu_plan = false;       // kRollout: nxdkit-cpu-plan.json in the place of a compiled blob
  bool only_weights = false;   // of `bundle`, which is refreshed and may have no model.pt
  std::optional<Dtype> dtype;  // nullopt: keep
  bool downcast = false;       // Downcast() instead of `dtype`
  uint64_t max_shard_bytes = 5'000'000'000;
  // kDcp; absent: the names that a checkpoint has, else those of transformers.
  std::optional<dcp::Style> dcp_style;
  dcp::Mesh mesh;  // kDcp: how the tensors are cut
};

// The output's layout, fully decided. Only the part of its kind counts.
struct OutputSpec {
  Kind kind = Kind::kHf;
  nxd::Geometry nxd;
  bool xser = false;
  bool aliases = false;       // those of the family are stored too: lm_head of a tied model
  bool training_tag = false;  // as in the options
  bool optimum = false;       // the tag is `shards` of an optimum-neuron checkpoint
  nxd::OptimizerStyle optimizer_style = nxd::OptimizerStyle::kZero1;
  int dp = 1;
  rollout::NeuronConfig neuron;
  std::string neuron_text;    // neuron_config.json as it will be written
  std::string config_text;    // config.json where it cannot be carried over as it is; else ""
  std::string cpu_plan_text;  // nxdkit-cpu-plan.json; "" for none
  std::optional<rollout::Bundle> bundle;
  bool only_weights = false;      // rank files alone, without folder
  std::optional<Dtype> dtype;     // nullopt: each its own
  std::vector<Dtype> own_dtypes;  // instead: per model parameter, or empty
  bool downcast = false;          // which Downcast() lowers
  uint64_t max_shard_bytes = 0;
  dcp::Style dcp_style = dcp::Style::kHf;
  // kDcp: of a checkpoint whose names stay; options, too, are then what it has.
  struct Names {
    std::string prefix;  // before those of the weights: "model."
    std::string state_prefix;
  };
  std::optional<Names> dcp_names;
  dcp::Mesh mesh;
  std::string source_digest;       // for nxdkit.json; "" when it was not asked for
  std::vector<std::string> notes;  // what was decided, and what the user should know
  std::vector<std::string> warnings;
};

// Decides the output's layout. kUsage for missing or contradicting options, kUnsupported with the
// reason for what cannot be laid out.
Result<OutputSpec> DecideOutput(const BoundArtifact& source, Kind kind,
                                const OutputOptions& options);

}  // namespace nxdkit::ops
