// PRIVATE to formats: the keys of an optimizer's state in a checkpoint by names, as
// torch.distributed.checkpoint.state_dict writes them.
//
//   optimizer.state.NAME.exp_avg        a tensor like the parameter
//   optimizer.state.NAME.step           a tensor without dimensions, or a number
//   optimizer.param_groups.NAME.lr      an option of one parameter: the flattened form
//   optimizer.param_groups.0.lr         an option of a group, and its parameters' names in
//   optimizer.param_groups.0.params     a list: the unflattened form of get_optimizer_state_dict
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

// A name without the parts of wrapping modules: "module" of DistributedDataParallel, "_orig_mod" of
// torch.compile, "_checkpoint_wrapped_module" and "_fsdp_wrapped_module".
std::string WithoutWrappers(std::string_view name);

// Whether a model has a tensor of this name, with the shape in question.
using KnowsName = std::function<bool(std::string_view name)>;
// The text before a known name: "base_model.model." of "base_model.model.lm_head.weight". "" if no
// part is a known name.
std::string BeforeKnown(std::string_view key, const KnowsName& knows);
// The same without a "model." at the end, which a name may or may not have: "ema." of
// "ema.norm.weight" and of "ema.model.norm.weight", "model." of "model.norm.weight".
std::string WrapperOf(std::string_view key, const KnowsName& knows);

// "NAME.exp_avg" split at the last dot.
std::pair<std::string, std::string> SplitStateKey(std::string_view key);

// Whether torch's optimizers have an entry of this name: "exp_avg".
bool IsKeptName(std::string_view name);

// "0", "12": a group, or a parameter without a name.
bool IsStateNumber(std::string_view name);

}  // namespace nxdkit::training
