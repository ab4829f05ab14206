// PRIVATE to formats: the keys of an optimizer's state in a checkpoint by names, as
// torch.distributed.checkpoint.state_dict gives them.
//
//   optimizer.state.NAME.exp_avg        a tensor like the parameter
//   optimizer.state.NAME.step           a tensor without dimensions, or a number
//   optimizer.param_groups.NAME.lr      an option of one parameter: the flattened form
//   optimizer.param_groups.0.lr         an option of a group, and its parameters' names in
//   optimizer.param_groups.0.params     a list: what get_optimizer_state_dict gives unflattened
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "formats/artifact/words.h"

namespace nxdkit::training {

inline constexpr std::string_view kModelPrefix = "model.";  // before weights, or nothing
inline constexpr std::string_view kOptimizerPrefix = "optimizer.";
inline constexpr std::string_view kOptimizerState = "optimizer.state.";
inline constexpr std::string_view kOptimizerGroups = "optimizer.param_groups.";

// A name without the parts that are modules around others: "module" of DistributedDataParallel,
// "_orig_mod" of torch.compile, "_checkpoint_wrapped_module" and "_fsdp_wrapped_module".
std::string WithoutWrappers(std::string_view name);

// Whether a model has a tensor of this name, and of the shape that is looked at.
using KnowsName = std::function<bool(std::string_view name)>;
// What is before a name that is known: "base_model.model." of "base_model.model.lm_head.weight". ""
// where no part is one.
std::string BeforeKnown(std::string_view key, const KnowsName& knows);
// The same without a "model." at the end, which a name may have or not: "ema." of "ema.norm.weight"
// and of "ema.model.norm.weight", "model." of "model.norm.weight".
std::string WrapperOf(std::string_view key, const KnowsName& knows);

// "NAME.exp_avg" in two, at the last dot.
std::pair<std::string, std::string> SplitStateKey(std::string_view key);

// Whether optimizers of torch keep something of a parameter under this name: "exp_avg".
bool IsKeptName(std::string_view name);

// "0", "12": of a group or of a parameter that has no name.
bool IsStateNumber(std::string_view name);

}  // namespace nxdkit::training
