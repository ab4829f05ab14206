// An artifact, bound: where every parameter is stored.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/lora/config.h"
#include "formats/nxd/lora_layout.h"
#include "formats/nxd/param_order.h"
#include "lib/plan/plan.h"

namespace nxdkit::ops {

// What an optimizer keeps of one parameter under one name: "exp_avg", "step".
struct OptimizerEntry {
  enum class Kind : uint8_t {
    kLike,    // a tensor like the parameter's, cut and replicated with it
    kScalar,  // a tensor without dimensions
    kValue,   // a number or the like, in the file's dict itself
  };
  std::string name;
  Kind kind = Kind::kLike;
  uint32_t param = 0;  // index into BoundArtifact::params; not for kValue
  size_t stored = 0;   // index into BoundArtifact::bound of the first place; not for kValue
  Dtype dtype = Dtype::kF32;
  torch::PickleValue value;  // kValue
  std::string value_text;    // its pickle: equal values have equal ones
};

// That which most have, and those of the others by name.
struct NamedDtypes {
  Dtype most = Dtype::kF32;
  std::map<std::string, Dtype> others;
  Dtype Of(const std::string& name) const;
};

// What an NxD tag says of an optimizer's state that a distributed checkpoint has no place for.
struct NumberedForm {
  std::vector<std::string> keys;          // of every file's dict, in order
  std::vector<torch::PickleDict> groups;  // param_groups, with empty "params"
  nxd::ParamOrder order;
  bool shapes_are_sizes = false;
  std::optional<Dtype> step;  // of its tensor without dimensions; nullopt: a number
  NamedDtypes weights;
  NamedDtypes state;          // of moments and master weights: "model.norm.weight/exp_avg"
  bool stores_head = false;   // of a tied model: lm_head.weight too
  bool fused_gate_up = true;  // one tensor of the module
  int pp = 0;                 // pipeline parallel ranks; 0: a record of before there was this one
};

// A tensor that a run has saved and no parameter is in: "dataloader.seen".
struct RunTensor {
  std::string key;
  uint32_t param = 0;   // index into BoundArtifact::params
  std::string wrapper;  // "ema.": of a second set of weights; "" for others
};

// The optimizer state of an NxD tag, or of a distributed checkpoint. Every entry of every parameter
// is a logical parameter itself, named "<parameter>/<entry>", after the model's own in
// BoundArtifact::params.
struct BoundOptimizer {
  nxd::OptimizerStyle style = nxd::OptimizerStyle::kZero1;
  int dp = 1;
  nxd::ParamOrder order;
  std::vector<std::string> keys;           // of every file's dict, in order
  std::vector<torch::PickleDict> groups;   // param_groups, the same in every file but for "params"
  std::vector<size_t> group_of;            // per model parameter: index into groups
  std::vector<torch::PickleDict> options;  // kNamed: per model parameter, as they are stored
  bool shapes_are_sizes = false;           // shape_info has torch.Size, not list
  std::optional<NumberedForm> form;        // kNamed: that of the tag that it was made of
  // Per model parameter; nullopt before its first step.
  std::vector<std::optional<std::vector<OptimizerEntry>>> entries;
  std::vector<std::optional<OptimizerEntry>> masters;  // sharded_master_weights

  std::vector<std::string> EntryNames() const;  // all of them, masters too, each once
  // What is kept of model parameter `param` under a name (nxd::kMasterWeights too); nullptr: none.
  const OptimizerEntry* Find(uint32_t param, std::string_view name) const;
};

// What the parameters of a LoRA adapter are to those of its base. Where the base's family is known,
// the indices are those of Model::params, else of the base's BoundArtifact::params.
struct LoraParts {
  lora::Config config;
  std::string config_path;                          // of adapter_config.json, or of what embeds it
  std::vector<std::optional<nxd::LoraPair>> pairs;  // a and b index the adapter's params
  // Parameters that the adapter holds whole (modules_to_save, biases), in its params.
  std::vector<std::optional<uint32_t>> wholes;
  nxd::LoraSharing sharing;  // which modules have one A

  size_t pair_count() const;
  size_t whole_count() const;
};

// The artifact with every stored tensor laid out.
struct BoundArtifact {
  Artifact artifact;
  std::optional<models::Model> model;  // nullopt: no table; parameters are the tensors themselves
  std::vector<LogicalTensor> params;
  BoundLayout bound;
  nxd::Geometry nxd_geometry;  // kNxd
  nxd::ReplicaOrder replicas = nxd::ReplicaOrder::kNone;
  rollout::Geometry rollout_geometry;  // kRollout
  std::vector<std::string> left_out;   // ignorable tensors
  // Of a delta, or with a merged adapter: what the parameters are read from, changed.
  std::shared_ptr<const BoundArtifact> base;
  std::optional<LoraParts> lora;                // this is an adapter, not a model
  std::shared_ptr<const BoundArtifact> merged;  // the adapter that is merged as base is read
  // With `merged`: the dtypes that parameters have where they are stored; they are read as F32, so
  // that a sum is rounded once. Empty, or one per parameter.
  std::vector<std::optional<Dtype>> own_dtypes;
  uint64_t reading_bytes = 0;  // memory that each thread takes to read it
  std::optional<BoundOptimizer> optimizer;
  // Of a distributed checkpoint, and with its optimizer only: the last of params.
  std::vector<RunTensor> run;
  // Of a distributed checkpoint: the keys of objects that go to another one byte for byte.
  std::vector<std::string> run_objects;
  // params from here on are the optimizer's and the run's.
  size_t model_params() const {
    return optimizer ? optimizer->entries.size() : params.size() - run.size();
  }
};

// Whether the embedding of a tied model is stored a second time, as the head.
bool StoresHead(const BoundArtifact& artifact);

// Maps every stored tensor to parameters. kUnsupported for a tensor that the family does not know,
// kCorrupt for shapes that are not the layout's. A family without a table can be bound only for hf,
// torch and dcp. Parameters that are stored nowhere show up in BuildPlan.
Result<BoundArtifact> Bind(Artifact artifact, const InputHints& hints);

// Open and Bind.
Result<BoundArtifact> OpenAndBind(const std::string& path, Kind kind, const InputHints& hints);

}  // namespace nxdkit::ops
