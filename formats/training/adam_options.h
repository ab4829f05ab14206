// PRIVATE to formats: the options in the param_groups of torch's AdamW.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/artifact/words.h"
#include "formats/torch/pickle_value.h"
#include "lib/base/error.h"

namespace nxdkit::training {

inline constexpr char kInitialRate[] = "initial_lr";

struct AdamOption {
  const char* name;
  torch::PickleValue unsaid;  // the value if none is given; see UnsaidIn
  // Whether it changes the numbers of a step; others change only how it is computed.
  bool counts = true;
};

// All of torch 2.15's, in its order, and initial_lr, which every schedule of torch adds to a group.
// TorchTitan, whose schedules exist before it loads, needs each of them in a checkpoint.
std::span<const AdamOption> AdamOptions();
const AdamOption* FindAdamOption(std::string_view name);  // nullptr if AdamW has none of that name

// The option's value in a group that does not give it: the initial rate is the rate.
torch::PickleValue UnsaidIn(const torch::PickleDict& group, const AdamOption& option);
// The option's value in a group, or its default if the group does not give it. Betas are a tuple,
// numbers floating point, as in torch.
torch::PickleValue OptionOf(const torch::PickleDict& group, const AdamOption& option);

// The options in a group of NxD's trainers; which of these a group does not give.
inline constexpr const char* kPlainOptions[] = {"lr", "betas", "eps", "weight_decay"};
std::vector<std::string> UnsaidOptions(const torch::PickleDict& group);

// A value for people: "0.1", "[0.9, 0.999]".
std::string OptionText(const torch::PickleValue& value);
// "weight_decay is 0.1 in A, and 0 in B", for the first option that differs; "" if all are the
// same. `a` and `b` say where the two groups are.
std::string OptionDifference(const torch::PickleDict& left, const std::string& a,
                             const torch::PickleDict& right, const std::string& b);

// The value in the group itself; nullptr if it does not give the option.
const torch::PickleValue* SaidIn(const torch::PickleDict& group, std::string_view name);

// Whether two values are the same, ignoring tuples as lists and whole numbers as floats.
Result<bool> SameOption(const torch::PickleValue& a, const torch::PickleValue& b);

}  // namespace nxdkit::training
