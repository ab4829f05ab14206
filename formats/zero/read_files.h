// PRIVATE: what the files of a tag say, each by itself: values of pickles as they are needed.
// Nothing is executed; what a script has put beside DeepSpeed's own keys is named and left.
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
  // The parameters of each flat group, in order; nullopt: the file does not say it (stage 0).
  std::optional<std::vector<std::vector<NamedShape>>> groups;
  std::vector<NamedShape> frozen;
  std::map<std::string, StoredTensor> frozen_parts;            // of stage 3: the rank's
  std::map<std::string, std::string> aliases;                  // the name, by another name of it
  std::map<std::string, std::vector<std::string>> aliases_of;  // the other way round
  bool has_optimizer = false;                                  // stage 0
  std::optional<torch::PickleValue> scheduler;                 // plain numbers alone
  std::optional<int64_t> steps;                                // global_steps
  std::optional<int64_t> world;                                // dp_world_size
  std::string version;                                         // of DeepSpeed
  std::vector<std::string> others;                             // keys of the script's own

  void AddAlias(const std::string& alias, const std::string& name);
  std::span<const std::string> AliasesOf(const std::string& name) const;
};
// kCorrupt or kUnsupported naming the key for anything else than DeepSpeed writes.
Result<ModelFile> ReadModelFile(const torch::Archive& archive);

// The optimizer's state of one flat group, on one rank.
struct GroupState {
  std::map<std::string, StoredTensor> tensors;  // flat: "exp_avg"
  std::optional<double> step;
};

struct OptimizerFile {
  int stage = 0;  // 1, 2 or 3; 1 where the file does not say it
  bool says_stage = false;
  std::vector<int64_t> ranks;  // partition_count
  std::vector<StoredTensor> masters;
  std::vector<GroupState> states;  // parallel to masters; empty where none was kept
  std::vector<int64_t> paddings;   // elements at the end of each group's part; empty: not said
  std::vector<std::vector<int64_t>> holes;  // after each parameter of each group; empty: none
  torch::PickleList options;                // param_groups; empty: not said
  std::vector<size_t> group_of;             // of each flat group, in `options`
  std::string version;
};
Result<OptimizerFile> ReadOptimizerFile(const torch::Archive& archive);

// Which of the options each of `flats` flat groups has: those that name its number, as in stage 3;
// options.size() of one that none names.
std::vector<size_t> GroupsOfFlats(const torch::PickleList& options, size_t flats);

// The step in the state of a flat group: a tensor of one element, or a number; nullopt: it has
// none.
Result<std::optional<double>> StepIn(const torch::Archive& archive,
                                     const torch::PickleValue& state);

// A group of options, whose tensors, as capturable optimizers have them, are numbers.
Result<torch::PickleValue> WithNumbers(const torch::Archive& archive,
                                       const torch::PickleValue& group);

}  // namespace nxdkit::zero
