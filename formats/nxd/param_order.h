// Which parameter of the model an optimizer's number stands for.
//
// An optimizer file has no names: parameters are numbered through all groups, and which goes into
// which group, and in what order, is up to the trainer's code. The orders of the trainers that are
// known are tried against the shapes that the files hold; one must be left.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/nxd/nxd_layout.h"
#include "formats/nxd/optimizer_set.h"

namespace nxdkit::nxd {

// How a trainer parts the parameters into groups; inside a group they keep the module's order.
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
  // A tied model's lm_head.weight has a number of its own. It has not where it is the same object
  // as the embedding, because named_parameters passes over what it has met.
  bool tied_head = true;
};

// The optimizer's parameters on one rank: indices into `params`, by group. `tied`: lm_head.weight
// among them is the embedding again. Counted through all groups they are the pids.
using ParamGroups = std::vector<std::vector<size_t>>;
ParamGroups GroupParams(const std::vector<TensorLayout>& params, const ParamOrder& order,
                        bool tied);

// The parameters that the model's files hold on the ranks of a set, as GroupParams takes them.
struct RankParams {
  int tp = 0;
  int pp = 0;
  std::vector<TensorLayout> params;  // in the module's order
};

// The one known order (of `wanted` only, when given) in which every number of every file has the
// shape of its parameter. `ranks` has one element per tp and pp rank, ordered by them. kUnsupported
// when none or several different ones fit: says what each fails on, and what decides.
Result<ParamOrder> FindParamOrder(const OptimizerSet& set, std::span<const RankParams> ranks,
                                  bool tied, std::optional<GroupRule> wanted);

// kUnsupported unless the names that a model file holds come in the module's order: the file was
// then written by a module whose parameters have another order than the known one.
Status CheckModuleOrder(const RankParams& rank, const TensorFile& file);

}  // namespace nxdkit::nxd
