#include "formats/nxd/param_order.h"

#include "lib/base/errors.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <unordered_map>

namespace nxdkit::nxd {
namespace {

constexpr std::string_view kTiedHead = "lm_head.weight";

struct RuleRow {
  GroupRule rule;
  std::string_view name;
  // A parameter whose name contains one of these is in the second group. Sources: NxD 0.18
  // examples/training/llama (bias, norm); NxDT 1.6.0 (bias; with do_layer_norm_weight_decay
  // LayerNorm and norm too, but no name of these families contains LayerNorm).
  std::vector<std::string_view> second_group;
  size_t groups;
};

const std::array<RuleRow, 3>& Rules() {
  static const std::array<RuleRow, 3> kRules = {{
      {GroupRule::kNorms, "norms", {"bias", "norm"}, 2},
      {GroupRule::kBiases, "biases", {"bias"}, 2},
      {GroupRule::kOne, "one", {}, 1},
  }};
  return kRules;
}

const RuleRow& RowOf(GroupRule rule) { return Rules()[static_cast<size_t>(rule)]; }

std::string PlaceOf(const ShardFile& file) {
  return fmt::format("tp rank {} pp rank {}", file.tp, file.pp);
}

// Whether a state tensor can be (a part of) the rows of a parameter of this shape.
bool RowsFit(const Shape& state, const Shape& whole) {
  return state.size() == whole.size() &&
         std::equal(state.begin() + 1, state.end(), whole.begin() + 1);
}

// A file's first contradiction to an order; "" if there is none.
std::string Objection(const OptimizerShard& shard, const std::vector<TensorLayout>& params,
                      const ParamGroups& groups, bool whole) {
  std::vector<int64_t> sizes;
  for (const std::vector<size_t>& group : groups)
    sizes.push_back(static_cast<int64_t>(group.size()));
  if (sizes != shard.group_sizes)
    return fmt::format("the groups of {} have {} parameters, expected {}", PlaceOf(shard.file),
                       ShapeText(shard.group_sizes), ShapeText(sizes));
  auto state = shard.state.begin();
  int64_t pid = 0;
  for (const std::vector<size_t>& group : groups)
    for (const size_t index : group) {
      const int64_t here = pid++;
      if (state == shard.state.end() || state->first != here) continue;
      const ParamState& found = (state++)->second;
      const TensorLayout& param = params[index];
      const auto objection = [&](const char* what, const Shape& shape) {
        return fmt::format("{}, parameter {}: {} has shape {}, {} has {}", PlaceOf(shard.file),
                           here, what, ShapeText(shape), param.name, ShapeText(param.shape));
      };
      if (found.shape && *found.shape != param.shape) return objection("shape_info", *found.shape);
      const auto fits = [&](const StoredTensor& tensor) {
        return whole ? tensor.shape == param.shape : RowsFit(tensor.shape, param.shape);
      };
      const std::vector<StateEntry> none;
      for (const StateEntry& entry : found.entries ? *found.entries : none)
        if (entry.tensor && !entry.tensor->shape.empty() && !fits(*entry.tensor))
          return objection(entry.name.c_str(), entry.tensor->shape);
      if (found.master && !RowsFit(found.master->shape, param.shape))
        return objection("sharded_master_weights", found.master->shape);
    }
  return "";
}

struct Candidate {
  ParamOrder order;
  std::string objection;
  std::vector<ParamGroups> groups;  // per rank: the mapping itself
};

void Try(Candidate& candidate, const OptimizerSet& set, std::span<const RankParams> ranks,
         bool tied) {
  for (const RankParams& rank : ranks)
    candidate.groups.push_back(GroupParams(rank.params, candidate.order, tied));
  const bool whole = set.style != OptimizerStyle::kZero1;
  for (const OptimizerShard& shard : set.shards) {
    const size_t rank =
        static_cast<size_t>(shard.file.tp) * set.location.pp + static_cast<size_t>(shard.file.pp);
    candidate.objection = Objection(shard, ranks[rank].params, candidate.groups[rank], whole);
    if (!candidate.objection.empty()) return;
  }
}

std::string NameOf(const Candidate& candidate, bool tied) {
  std::string name(GroupRuleName(candidate.order.rule));
  if (tied) name += candidate.order.tied_head ? " with" : " without";
  if (tied) name += " lm_head.weight";
  return name;
}

bool HoldsHead(std::span<const RankParams> ranks) {
  return std::ranges::any_of(ranks, [](const RankParams& rank) {
    return std::ranges::any_of(rank.params,
                               [](const TensorLayout& param) { return param.name == kTiedHead; });
  });
}

Error NoneFits(const std::vector<Candidate>& candidates, bool tied) {
  std::string reasons;
  for (const Candidate& candidate : candidates)
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", NameOf(candidate, tied),
                           candidate.objection);
  return Unsupported(
             "the parameters of the numbers are unknown, because no known order of the parameters "
             "fits the shapes: {}",
             reasons)
      .hint("--no-optimizer leaves the optimizer's state out");
}

}  // namespace

std::string_view GroupRuleName(GroupRule rule) { return RowOf(rule).name; }

std::optional<GroupRule> GroupRuleFromName(std::string_view name) {
  for (const RuleRow& row : Rules())
    if (row.name == name) return row.rule;
  return std::nullopt;
}

ParamGroups GroupParams(const std::vector<TensorLayout>& params, const ParamOrder& order,
                        bool tied) {
  const RuleRow& rule = RowOf(order.rule);
  ParamGroups groups(rule.groups);
  for (size_t i = 0; i < params.size(); ++i) {
    const std::string& name = params[i].name;
    if (tied && !order.tied_head && name == kTiedHead) continue;
    const bool second = std::ranges::any_of(rule.second_group, [&](std::string_view part) {
      return name.find(part) != std::string::npos;
    });
    groups[second ? 1 : 0].push_back(i);
  }
  return groups;
}

Result<ParamOrder> FindParamOrder(const OptimizerSet& set, std::span<const RankParams> ranks,
                                  bool tied, std::optional<GroupRule> wanted) {
  const bool head = tied && HoldsHead(ranks);
  std::vector<Candidate> candidates;
  for (const RuleRow& row : Rules()) {
    if (wanted && *wanted != row.rule) continue;
    candidates.push_back({{row.rule, true}, "", {}});
    if (head) candidates.push_back({{row.rule, false}, "", {}});
  }
  const Candidate* fits = nullptr;
  for (Candidate& candidate : candidates) {
    Try(candidate, set, ranks, tied);
    if (!candidate.objection.empty()) continue;
    if (!fits) {
      fits = &candidate;
      continue;
    }
    if (candidate.groups == fits->groups) continue;
    return Unsupported(
               "two orders of the parameters fit the shapes, {} and {}, and would number them "
               "differently",
               NameOf(*fits, head), NameOf(candidate, head))
        .in(set.location.folder)
        .hint("--param-order decides, if you know how the trainer groups its parameters");
  }
  if (!fits) return NoneFits(candidates, head).in(set.location.folder);
  return fits->order;
}

Status CheckModuleOrder(const RankParams& rank, const TensorFile& file) {
  std::unordered_map<std::string_view, size_t> known;
  for (size_t i = 0; i < rank.params.size(); ++i) known.emplace(rank.params[i].name, i);
  size_t next = 0;
  for (const StoredTensor& stored : file.tensors) {
    const auto it = known.find(stored.name);
    if (it == known.end()) continue;
    if (it->second != next)
      return Unsupported(
                 "the state dict has the parameter where {} was expected: the module that wrote it "
                 "orders its parameters in a way that is not known, so the optimizer's numbers "
                 "cannot be told",
                 rank.params[next].name)
          .in(file.path)
          .on(stored.name)
          .hint("--no-optimizer leaves the optimizer's state out");
    ++next;
  }
  return OkStatus();
}

}  // namespace nxdkit::nxd
