// The state of training other than the weights: an optimizer's entries for each parameter, and the
// rest that a run has saved. As data; formats/training/ works on it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/nxd/param_order.h"
#include "formats/torch/pickle_value.h"
#include "lib/base/error.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::artifact {

// An optimizer's entry for one parameter, by name: "exp_avg", "step".
struct OptimizerEntry {
  enum class Kind : uint8_t {
    kLike,    // a tensor like the parameter's, cut and replicated with it
    kScalar,  // a tensor without dimensions
    kValue,   // a number or the like, in the file's dict itself
  };
  std::string name;
  Kind kind = Kind::kLike;
  uint32_t param = 0;  // index into BoundArtifact::params; not for kValue
  size_t stored = 0;   // the first place in BoundArtifact::bound; not for kValue
  Dtype dtype = Dtype::kF32;
  torch::PickleValue value;  // kValue
  std::string value_text;    // its pickle: equal values have equal ones
};

// The most frequent dtype, and those of the others by name.
struct NamedDtypes {
  Dtype most = Dtype::kF32;
  std::map<std::string, Dtype> others;
  Dtype Of(const std::string& name) const;
};

// The parts of an optimizer's state in an NxD tag for which a checkpoint by names has no place.
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
  int pp = 0;                 // pipeline parallel ranks; 0: an older record without it
};

// A tensor that a run has saved and that is not in a parameter: "dataloader.seen".
struct RunTensor {
  std::string key;
  uint32_t param = 0;   // index into BoundArtifact::params
  std::string wrapper;  // "ema.": of a second set of weights; "" for others
};

// The values other than tensors in a checkpoint that stores its state by names.
class RunObjects {
 public:
  virtual ~RunObjects() = default;
  virtual const std::string& path() const = 0;        // of the checkpoint's folder
  virtual std::vector<std::string> Keys() const = 0;  // in its order
  virtual Result<torch::PickleValue> Read(std::string_view key) const = 0;  // one of Keys()
};

// An optimizer's state, by numbers or by names. Every entry of every parameter is itself a logical
// parameter, named "<parameter>/<entry>", after the model's own in BoundArtifact::params.
struct BoundOptimizer {
  nxd::OptimizerStyle style = nxd::OptimizerStyle::kZero1;
  int dp = 1;
  nxd::ParamOrder order;
  std::vector<std::string> keys;           // of every file's dict, in order
  std::vector<torch::PickleDict> groups;   // param_groups, the same in every file but for "params"
  std::vector<size_t> group_of;            // per model parameter: index into groups
  std::vector<torch::PickleDict> options;  // kNamed: per model parameter, as stored
  bool shapes_are_sizes = false;           // shape_info has torch.Size, not list
  bool fused_gate_up = true;               // kNumbered: one tensor of the module
  int pp = 1;                              // pipeline parallel ranks of the module
  std::optional<NumberedForm> form;        // kNamed: of the tag that it was made from
  // Per model parameter; nullopt before its first step.
  std::vector<std::optional<std::vector<OptimizerEntry>>> entries;
  std::vector<std::optional<OptimizerEntry>> masters;  // sharded_master_weights
  bool has_masters_beside = false;  // a state by names had them before it was numbered

  std::vector<std::string> EntryNames() const;  // all of them, masters too, each once
  // The entry of model parameter `param` with this name (nxd::kMasterWeights too); nullptr: none.
  const OptimizerEntry* Find(uint32_t param, std::string_view name) const;
};

}  // namespace nxdkit::artifact
