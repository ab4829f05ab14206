// PRIVATE to formats: what torch's AdamW has in its param_groups.
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
  torch::PickleValue unsaid;  // what it is where nothing says so; see UnsaidIn
  // Changes the numbers of a step; others only how it is computed.
  bool counts = true;
};

// All of torch 2.15's, in its order, and initial_lr, which every schedule of torch adds to a group.
// TorchTitan, whose schedules are there before it loads, needs each of them in a checkpoint.
std::span<const AdamOption> AdamOptions();
const AdamOption* FindAdamOption(std::string_view name);  // nullptr: AdamW has none of that name

// What the option is in a group that does not say it: the initial rate is the rate.
torch::PickleValue UnsaidIn(const torch::PickleDict& group, const AdamOption& option);
// The option's value in a group, or what it is where the group does not say it. Betas are a tuple,
// numbers floating point, as torch has them.
torch::PickleValue OptionOf(const torch::PickleDict& group, const AdamOption& option);

// What NxD's trainers have in a group; which of these a group does not say.
inline constexpr const char* kPlainOptions[] = {"lr", "betas", "eps", "weight_decay"};
std::vector<std::string> UnsaidOptions(const torch::PickleDict& group);

// A value for people: "0.1", "[0.9, 0.999]".
std::string OptionText(const torch::PickleValue& value);
// "weight_decay is 0.1 in A, and 0 in B", of the first option that is not the same; "" when all
// are. `a` and `b` say where the two groups are.
std::string OptionDifference(const torch::PickleDict& left, const std::string& a,
                             const torch::PickleDict& right, const std::string& b);

// The value that the group itself has; nullptr where it does not say the option.
const torch::PickleValue* SaidIn(const torch::PickleDict& group, std::string_view name);

// Whether two values are the same but for lists that are tuples, and whole numbers.
Result<bool> SameOption(const torch::PickleValue& a, const torch::PickleValue& b);

}  // namespace nxdkit::training
