#include "formats/training/numbered_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "formats/training/adam_options.h"
#include "formats/training/check_adam.h"
#include "formats/training/keep_params.h"
#include "formats/training/run_progress.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::ops {
namespace {

using EntryKind = OptimizerEntry::Kind;
using nxd::GroupRule;
using torch::PickleDict;
using torch::PickleValue;

// Which holds what is stored as `found`, and is `wanted` if that does.
Dtype Holding(Dtype found, Dtype wanted) {
  if (!Info(found).floating || found == wanted) return found;
  if (ElementBytes(found) == ElementBytes(wanted)) return Dtype::kF32;
  return ElementBytes(found) > ElementBytes(wanted) ? found : wanted;
}

PickleValue Key(const char* text) { return {std::string(text)}; }

// What NxD's trainers have in a group.
PickleDict PlainGroup() {
  PickleDict group;
  for (const char* name : kPlainOptions) {
    PickleValue value = FindAdamOption(name)->unsaid;
    if (value.list()) value = PickleValue::MakeList(*value.list());
    group.push_back({Key(name), std::move(value)});
  }
  group.push_back({Key("params"), PickleValue::MakeList({})});
  return group;
}

class Numberer {
 public:
  Numberer(BoundArtifact& source, std::optional<GroupRule> order, std::vector<std::string>& notes)
      : source_(source), optimizer_(*source.optimizer), asked_(order), notes_(notes) {}

  Status Run() {
    if (source_.objects) NXDKIT_TRY(CheckAdam(source_));
    NXDKIT_TRY(FindOrder());
    NXDKIT_TRY(MakeGroups());
    optimizer_.keys = optimizer_.form
                          ? optimizer_.form->keys
                          : std::vector<std::string>{"state", "param_groups", "base_state",
                                                     "shape_info", nxd::kMasterWeights};
    optimizer_.shapes_are_sizes = optimizer_.form && optimizer_.form->shapes_are_sizes;
    if (!optimizer_.form) OrderEntries();
    NXDKIT_TRY(StoreSteps());
    if (std::ranges::find(optimizer_.keys, nxd::kMasterWeights) != optimizer_.keys.end())
      NXDKIT_TRY(AddMasters());
    Widen();
    optimizer_.style = nxd::OptimizerStyle::kZero1;
    return NameLosses();
  }

 private:
  std::vector<std::vector<size_t>> GroupsBy(GroupRule rule) const {
    std::vector<TensorLayout> names;
    for (size_t i = 0; i < optimizer_.entries.size(); ++i)
      names.push_back({source_.params[i].name, 0, {}, std::nullopt, {}, {}});
    return nxd::GroupParams(names, {rule, false}, source_.model->config.tied);
  }

  // The options that all parameters of these have; nullopt when they differ. What was not
  // trained has none.
  std::optional<std::set<size_t>> OptionsOf(const std::vector<size_t>& params) const {
    std::set<size_t> found;
    for (const size_t i : params)
      if (optimizer_.entries[i]) found.insert(optimizer_.group_of[i]);
    if (found.size() > 1) return std::nullopt;
    return found;
  }

  bool Fits(GroupRule rule) const {
    const auto groups = GroupsBy(rule);
    return std::ranges::all_of(groups, [&](const auto& g) { return OptionsOf(g).has_value(); });
  }

  // What keeps two parameters from being in one of the rule's groups.
  std::string DifferenceIn(GroupRule rule) const {
    for (const std::vector<size_t>& group : GroupsBy(rule)) {
      const auto first =
          std::ranges::find_if(group, [&](size_t i) { return optimizer_.entries[i].has_value(); });
      for (const size_t i : group)
        if (optimizer_.entries[i] && optimizer_.group_of[i] != optimizer_.group_of[*first])
          return OptionDifference(
              optimizer_.groups[optimizer_.group_of[*first]], source_.params[*first].name,
              optimizer_.groups[optimizer_.group_of[i]], source_.params[i].name);
    }
    return "";
  }

  Status FindOrder() {
    std::vector<GroupRule> tried = {GroupRule::kOne, GroupRule::kNorms, GroupRule::kBiases};
    if (optimizer_.form) tried.insert(tried.begin(), optimizer_.form->order.rule);
    if (asked_) tried = {*asked_};
    const auto fits = std::ranges::find_if(tried, [&](GroupRule rule) { return Fits(rule); });
    if (fits == tried.end())
      return Unsupported(
                 "the parameters have {} different sets of options, which are not the groups that "
                 "NxD's trainers make ({}): {}",
                 optimizer_.groups.size(),
                 asked_ ? nxd::GroupRuleName(*asked_) : "one, norms, biases",
                 DifferenceIn(asked_.value_or(GroupRule::kNorms)))
          .in(source_.artifact.path)
          .hint("--no-optimizer leaves the optimizer's state out");
    optimizer_.order = {*fits, optimizer_.form && optimizer_.form->order.tied_head};
    return OkStatus();
  }

  Status MakeGroups() {
    const auto groups = GroupsBy(optimizer_.order.rule);
    const bool recorded = optimizer_.form && optimizer_.form->groups.size() == groups.size();
    std::vector<PickleDict> made;
    for (size_t g = 0; g < groups.size(); ++g) {
      made.push_back(recorded ? optimizer_.form->groups[g] : PlainGroup());
      const std::set<size_t> options = *OptionsOf(groups[g]);
      if (!recorded) NoteDefaults(groups[g], options);
      if (options.empty() || optimizer_.groups.empty()) continue;
      NXDKIT_TRY(TakeOptions(optimizer_.groups[*options.begin()], made.back()));
      NoteOthers(groups[g], optimizer_.groups[*options.begin()], made.back());
    }
    optimizer_.groups = std::move(made);
    optimizer_.group_of.assign(optimizer_.entries.size(), 0);
    for (size_t g = 0; g < groups.size(); ++g)
      for (const size_t i : groups[g]) optimizer_.group_of[i] = g;
    return OkStatus();
  }

  // "model.norm.weight and 4 other parameters", of those that were trained.
  std::string NameTrained(const std::vector<size_t>& group) const {
    std::vector<size_t> trained;
    for (const size_t i : group)
      if (optimizer_.entries[i]) trained.push_back(i);
    return NameSome(source_, trained);
  }

  // Of what was trained; without a record the group has torch's own value.
  void NoteDefaults(const std::vector<size_t>& group, const std::set<size_t>& options) {
    if (options.empty()) return;
    static const PickleDict kNone;
    const size_t number = *options.begin();
    const std::vector<std::string> unsaid =
        UnsaidOptions(number < optimizer_.groups.size() ? optimizer_.groups[number] : kNone);
    if (!unsaid.empty())
      notes_.push_back(
          fmt::format("the checkpoint does not say {} of {}: torch's defaults are written",
                      fmt::join(unsaid, ", "), NameTrained(group)));
  }

  // What is not one of AdamW's, and was not in the tag's groups.
  void NoteOthers(const std::vector<size_t>& group, const PickleDict& options,
                  const PickleDict& made) {
    std::vector<std::string> others;
    for (const auto& [key, value] : options)
      if (key.string() && !FindAdamOption(*key.string()) && !SaidIn(made, *key.string()))
        others.push_back(fmt::format("{} ({})", EscapeControl(*key.string()), OptionText(value)));
    if (!others.empty())
      notes_.push_back(
          fmt::format("options that AdamW does not have, of {}, have no counterpart in a tag and "
                      "are left out: {}",
                      NameTrained(group), fmt::join(others, ", ")));
  }

  // The checkpoint's options count; where they are the record's, its spelling stays.
  static Status TakeOptions(const PickleDict& options, PickleDict& group) {
    for (const AdamOption& option : AdamOptions()) {
      if (!SaidIn(options, option.name)) continue;
      const PickleValue value = OptionOf(options, option);
      const auto item = std::ranges::find_if(group, [&](const auto& pair) {
        return pair.first.string() && *pair.first.string() == option.name;
      });
      if (item == group.end()) {
        NXDKIT_ASSIGN(const bool unsaid, SameOption(value, UnsaidIn(options, option)));
        if (!unsaid && option.counts) group.insert(group.end() - 1, {Key(option.name), value});
        continue;
      }
      NXDKIT_ASSIGN(const bool same, SameOption(value, item->second));
      if (same) continue;
      const bool is_list = std::holds_alternative<PickleValue::List>(item->second.value);
      item->second = is_list && value.list() ? PickleValue::MakeList(*value.list()) : value;
    }
    return OkStatus();
  }

  // As Adam has them. In a checkpoint the order of names is chance: torch sorts them when there are
  // several ranks.
  void OrderEntries() {
    const auto place = [](const OptimizerEntry& entry) {
      return std::ranges::find(kAdamEntries, entry.name) - std::begin(kAdamEntries);
    };
    for (auto& entries : optimizer_.entries)
      if (entries) std::ranges::stable_sort(*entries, {}, place);
  }

  // As the record says; as they are, without one.
  Status StoreSteps() {
    if (!optimizer_.form || optimizer_.form->step == Dtype::kF32) return OkStatus();
    return ChangeSteps(source_, [&](uint32_t i, OptimizerEntry& entry, double step) -> Status {
      if (!(step >= 0 && step < 9e15)) return Unsupported("step {} is not a count", step);
      if (optimizer_.form->step) {
        StoreScalar(source_, i, entry, *optimizer_.form->step, step);
        return OkStatus();
      }
      entry.kind = EntryKind::kValue;
      entry.value = {static_cast<int64_t>(step)};
      entry.value_text = std::to_string(static_cast<int64_t>(step));
      return OkStatus();
    });
  }

  // The weights are stored as the weights of the module, and once more as they are.
  Status AddMasters() {
    const size_t count = optimizer_.entries.size();
    const auto first = static_cast<uint32_t>(source_.params.size());
    for (uint32_t i = 0; i < count; ++i) {
      LogicalTensor master = source_.params[i];
      master.name += std::string("/") + nxd::kMasterWeights;
      source_.params.push_back(std::move(master));
      optimizer_.masters[i] = {
          nxd::kMasterWeights, EntryKind::kLike, first + i, SIZE_MAX, Dtype::kF32, {}, ""};
    }
    for (size_t t = 0, stored = source_.bound.stored.size(); t < stored; ++t) {
      TensorLayout layout = source_.bound.layout.tensors[t];
      if (layout.pieces.empty() || layout.pieces.front().param >= count) continue;
      for (Piece& piece : layout.pieces) {
        OptimizerEntry& master = *optimizer_.masters[piece.param];
        if (master.stored == SIZE_MAX) {
          master.stored = source_.bound.stored.size();
          master.dtype = source_.bound.stored[t].dtype;
        }
        piece.param += first;
      }
      source_.bound.Add(std::move(layout), StoredTensor(source_.bound.stored[t]));
    }
    for (size_t i = 0; i < count; ++i)
      if (optimizer_.masters[i]->stored == SIZE_MAX)
        return Corrupt("the parameter is stored nowhere")
            .in(source_.artifact.path)
            .on(source_.params[i].name)
            .hint("ckpt-verify names the files and ranks");
    return OkStatus();
  }

  // ZeRO-1 has moments and master weights in F32, whatever the checkpoint was saved in; a tag that
  // the record is of may have had something else.
  void Widen() {
    const NamedDtypes wanted = optimizer_.form ? optimizer_.form->state : NamedDtypes();
    const auto widen = [&](OptimizerEntry& entry) {
      if (entry.kind == EntryKind::kLike)
        entry.dtype = Holding(entry.dtype, wanted.Of(source_.params[entry.param].name));
    };
    for (auto& entries : optimizer_.entries)
      if (entries) std::ranges::for_each(*entries, widen);
    for (auto& master : optimizer_.masters)
      if (master) widen(*master);
  }

  // What else the run has saved has no place in a tag, but for the schedule.
  Status NameLosses() {
    if (!source_.objects) return OkStatus();
    NXDKIT_ASSIGN(const std::vector<std::string> losses, LossesOfRun(source_));
    notes_.insert(notes_.end(), losses.begin(), losses.end());
    LeaveRun(source_);
    return OkStatus();
  }

  BoundArtifact& source_;
  BoundOptimizer& optimizer_;
  std::optional<GroupRule> asked_;
  std::vector<std::string>& notes_;
};

}  // namespace

Status ToNumberedState(BoundArtifact& source, std::optional<GroupRule> order,
                       std::vector<std::string>& notes) {
  if (!source.optimizer && source.objects) {
    NXDKIT_ASSIGN(const std::vector<std::string> losses, LossesOfRun(source));
    notes.insert(notes.end(), losses.begin(), losses.end());
    LeaveRun(source);
  }
  if (!source.optimizer || source.optimizer->style != nxd::OptimizerStyle::kNamed)
    return OkStatus();
  return Numberer(source, order, notes).Run();
}

}  // namespace nxdkit::ops
