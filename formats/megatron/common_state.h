// The data of a Megatron-Core distributed checkpoint that are not tensors: the arguments of the
// script, and the options of the optimizer. Read for its numbers; nothing in it is executed, and
// objects of irrelevant classes have no contents here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/dcp/folder.h"
#include "formats/torch/archive.h"
#include "formats/torch/pickle_value.h"
#include "lib/system/looker.h"

namespace nxdkit::megatron {

// A group of an optimizer's parameters, without their names, which are lost.
struct OptionGroup {
  torch::PickleDict options;  // lr, betas, eps, weight_decay
  std::optional<double> step;
  bool decays = true;      // its wd_mult is not 0
  bool experts = false;    // its parameters are those of experts
  bool decoupled = false;  // they have their own learning rate: embedding and head
};

struct CommonState {
  std::string file;  // "" where there is none
  bool has_args = false;
  std::map<std::string, torch::PickleValue, std::less<>> args;  // numbers, flags and texts
  std::optional<int64_t> iteration;
  std::vector<OptionGroup> groups;
  std::optional<double> step;  // a single one: common_step

  std::optional<double> CommonStep() const;  // or that of all groups
  // nullopt if it is absent, or not a number.
  std::optional<double> Real(std::string_view name) const;
  std::optional<int64_t> Number(std::string_view name) const;
  std::optional<bool> Flag(std::string_view name) const;
};

// Reads common.pt in the folder `path`, otherwise the object of `folder` that replaces it in 0.19;
// empty without either.
Result<CommonState> ReadCommonState(const std::string& path, const dcp::Folder& folder,
                                    const Looker& look);

// Reads the archive of either.
Result<CommonState> ParseCommonState(const torch::Archive& archive);

// Adds the groups of an optimizer in flat buckets, which are objects of the checkpoint.
Status ReadBucketGroups(const dcp::Folder& folder, CommonState& state);

}  // namespace nxdkit::megatron
