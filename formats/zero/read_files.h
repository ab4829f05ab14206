// PRIVATE: the contents of a tag's files, each by itself: values of pickles as they are needed.
// Nothing is executed; keys that a script added to DeepSpeed's own are named and left out.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/torch/archive.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::zero {

struct NamedTensor {
  std::string name;
  StoredTensor stored;
};

struct NamedShape {
  std::string name;
  Shape shape;
};

struct ModelFile {
  std::vector<NamedTensor> module;  // in its order; empty ones where stage 3 has parameters
  std::set<std::string> buffers;
  // The parameters of each flat group, in order; nullopt: not recorded in the file (stage 0).
  std::optional<std::vector<std::vector<NamedShape>>> groups;
  std::vector<NamedShape> frozen;
  std::map<std::string, StoredTensor> frozen_parts;            // stage 3: the rank's parts
  std::map<std::string, std::string> aliases;                  // the name, by another name of it
  std::map<std::string, std::vector<std::string>> aliases_of;  // the reverse
  bool has_optimizer = false;                                  // stage 0
  std::optional<torch::PickleValue> scheduler;                 // plain numbers only
  std::optional<int64_t> steps;                                // global_steps
  std::optional<int64_t> world;                                // dp_world_size
  std::string version;                                         // of DeepSpeed
  std::vector<std::string> others;                             // keys added by the script

  void AddAlias(const std::string& alias, const std::string& name);
  std::span<const std::string> AliasesOf(const std::string& name) const;
};
// kCorrupt or kUnsupported naming the key for anything that DeepSpeed does not write.
Result<ModelFile> ReadModelFile(const torch::Archive& archive);

// One rank's optimizer state of one flat group.
struct GroupState {
  std::map<std::string, StoredTensor> tensors;  // flat: "exp_avg"
  std::optional<double> step;
};

struct OptimizerFile {
  int stage = 0;  // 1, 2 or 3; 1 where not recorded
  bool says_stage = false;
  std::vector<int64_t> ranks;  // partition_count
  std::vector<StoredTensor> masters;
  std::vector<GroupState> states;  // parallel to masters; empty without state
  std::vector<int64_t> paddings;   // elements at the end of each group's part; empty: not recorded
  std::vector<std::vector<int64_t>> holes;  // after each parameter of each group; empty: none
  torch::PickleList options;                // param_groups; empty: not recorded
  std::vector<size_t> group_of;             // by flat group: index in `options`
  std::string version;
};
Result<OptimizerFile> ReadOptimizerFile(const torch::Archive& archive);

// The index in `options` for each of `flats` flat groups: of the options that list its number, as
// in stage 3; options.size() where none does.
std::vector<size_t> GroupsOfFlats(const torch::PickleList& options, size_t flats);

// The step in the state of a flat group: a tensor of one element, or a number; nullopt without one.
Result<std::optional<double>> StepIn(const torch::Archive& archive,
                                     const torch::PickleValue& state);

// A group of options, with its tensors, as capturable optimizers have them, turned into numbers.
Result<torch::PickleValue> WithNumbers(const torch::Archive& archive,
                                       const torch::PickleValue& group);

}  // namespace nxdkit::zero
