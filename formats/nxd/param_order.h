// The parameter of the model that an optimizer's number stands for.
//
// An optimizer file has no names: parameters are numbered through all groups, and the trainer's
// code decides which parameter is in which group, and in what order. The orders of known trainers
// are tried against the shapes in the files; exactly one must remain.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/nxd/nxd_layout.h"
#include "formats/nxd/optimizer_set.h"

namespace nxdkit::nxd {

// How a trainer splits the parameters into groups; inside a group they keep the module's order.
enum class GroupRule : uint8_t {
  kNorms,  // without `bias` or `norm` in their names, then the rest: NxD's Llama training, and NxDT
           // with do_layer_norm_weight_decay
  kBiases,  // without `bias` in their names, then the rest: NxDT
  kOne,     // all in one
};
std::string_view GroupRuleName(GroupRule rule);  // "norms", "biases", "one"
std::optional<GroupRule> GroupRuleFromName(std::string_view name);

struct ParamOrder {
  GroupRule rule = GroupRule::kNorms;
  // A tied model's lm_head.weight has a number of its own. It has none where it is the same object
  // as the embedding, because named_parameters skips objects it has returned before.
  bool tied_head = true;
};

// The optimizer's parameters on one rank: indices into `params`, by group. `tied`: lm_head.weight
// among them is the embedding again. Counted through all groups, they are the pids.
using ParamGroups = std::vector<std::vector<size_t>>;
ParamGroups GroupParams(const std::vector<TensorLayout>& params, const ParamOrder& order,
                        bool tied);

// The parameters that the model's files hold on the ranks of a set, as GroupParams takes them.
struct RankParams {
  int tp = 0;
  int pp = 0;
  std::vector<TensorLayout> params;  // in the module's order
};

// The one known order (`wanted` only, if given) in which every number of every file has the shape
// of its parameter. `ranks` has one element per tp and pp rank, in that order. kUnsupported when
// none or several different ones fit: the message says where each fails, and what decides.
Result<ParamOrder> FindParamOrder(const OptimizerSet& set, std::span<const RankParams> ranks,
                                  bool tied, std::optional<GroupRule> wanted);

// kUnsupported unless the names in a model file are in the module's order: otherwise the file was
// written by a module whose parameters are in another order than the known one.
Status CheckModuleOrder(const RankParams& rank, const TensorFile& file);

}  // namespace nxdkit::nxd
