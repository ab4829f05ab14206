// PRIVATE to formats/artifact and formats/output: what torch's AdamW has in its param_groups.
#pragma once

#include <span>
#include <string_view>

#include "formats/torch/pickle_value.h"
#include "lib/base/error.h"

namespace nxdkit::ops {

struct AdamOption {
  const char* name;
  torch::PickleValue unsaid;  // what it is where nothing says so
  // Changes the numbers of a step; others only how it is computed.
  bool counts = true;
};

// All of torch 2.15's, in its order. TorchTitan needs each of them in a checkpoint that it loads.
std::span<const AdamOption> AdamOptions();
const AdamOption* FindAdamOption(std::string_view name);  // nullptr: AdamW has none of that name

// The option's value in a group, or what it is where nothing says so. Betas are a tuple, numbers
// floating point, as torch has them.
torch::PickleValue OptionOf(const torch::PickleDict& group, const AdamOption& option);

// Whether two values are the same but for lists that are tuples, and whole numbers.
Result<bool> SameOption(const torch::PickleValue& a, const torch::PickleValue& b);

}  // namespace nxdkit::ops
