// The data beside the tensors of a distributed checkpoint of Megatron-Core: the arguments of the
// script, and the options of the optimizer. Read for its numbers; nothing of it is executed, and
// objects of classes that nobody needs have no contents here.
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

// A group of an optimizer's parameters, whose names were lost.
struct OptionGroup {
  torch::PickleDict options;  // lr, betas, eps, weight_decay
  std::optional<double> step;
  bool decays = true;      // its wd_mult is not 0
  bool experts = false;    // its parameters are those of experts
  bool decoupled = false;  // they have a learning rate of their own: embedding and head
};

struct CommonState {
  std::string file;  // "" where there is none
  bool has_args = false;
  std::map<std::string, torch::PickleValue, std::less<>> args;  // numbers, flags and texts
  std::optional<int64_t> iteration;
  std::vector<OptionGroup> groups;
  std::optional<double> step;  // one for all: common_step

  std::optional<double> CommonStep() const;  // or that of all groups
  // nullopt: it does not say it, or as something else.
  std::optional<double> Real(std::string_view name) const;
  std::optional<int64_t> Number(std::string_view name) const;
  std::optional<bool> Flag(std::string_view name) const;
};

// common.pt in the folder `path`, else the object of `folder` that 0.19 has in its place, else
// nothing.
Result<CommonState> ReadCommonState(const std::string& path, const dcp::Folder& folder,
                                    const Looker& look);

// Reads the archive of either.
Result<CommonState> ParseCommonState(const torch::Archive& archive);

// Adds the groups of an optimizer in flat buckets, which are objects of the checkpoint.
Status ReadBucketGroups(const dcp::Folder& folder, CommonState& state);

}  // namespace nxdkit::megatron
