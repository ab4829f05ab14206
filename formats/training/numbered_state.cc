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

namespace nxdkit::training {
namespace {

using EntryKind = OptimizerEntry::Kind;
using nxd::GroupRule;
using torch::PickleDict;
using torch::PickleValue;

// `wanted` if it can hold values stored as `found`, else a dtype that can.
Dtype Holding(Dtype found, Dtype wanted) {
  if (!Info(found).floating || found == wanted) return found;
  if (ElementBytes(found) == ElementBytes(wanted)) return Dtype::kF32;
  return ElementBytes(found) > ElementBytes(wanted) ? found : wanted;
}

PickleValue Key(const char* text) { return {std::string(text)}; }

// The options in a group of NxD's trainers.
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

// Other state that the run has saved has no place in a tag, except the schedule.
Status NameLosses(BoundArtifact& source, std::vector<std::string>& notes) {
  if (!source.objects) return OkStatus();
  NXDKIT_ASSIGN(const std::vector<std::string> losses, LossesOfRun(source));
  notes.insert(notes.end(), losses.begin(), losses.end());
  LeaveRun(source);
  return OkStatus();
}

struct Numberer {
  BoundArtifact& source;
  std::optional<GroupRule> asked;
  std::vector<std::string>& notes;
  BoundOptimizer& optimizer = *source.optimizer;

  Status Run() {
    if (source.objects) NXDKIT_TRY(CheckAdam(source));
    NXDKIT_TRY(FindOrder());
    NXDKIT_TRY(MakeGroups());
    optimizer.keys = optimizer.form
                         ? optimizer.form->keys
                         : std::vector<std::string>{"state", "param_groups", "base_state",
                                                    "shape_info", nxd::kMasterWeights};
    optimizer.shapes_are_sizes = optimizer.form && optimizer.form->shapes_are_sizes;
    if (!optimizer.form) OrderEntries();
    NXDKIT_TRY(StoreSteps());
    if (std::ranges::find(optimizer.keys, nxd::kMasterWeights) != optimizer.keys.end())
      NXDKIT_TRY(AddMasters());
    Widen();
    optimizer.style = nxd::OptimizerStyle::kZero1;
    return NameLosses(source, notes);
  }

  std::vector<std::vector<size_t>> GroupsBy(GroupRule rule) const {
    std::vector<TensorLayout> names;
    for (size_t i = 0; i < optimizer.entries.size(); ++i)
      names.push_back({source.params[i].name, 0, {}, std::nullopt, {}, {}});
    return nxd::GroupParams(names, {rule, false}, source.model->config.tied);
  }

  // The options that all of these parameters share; nullopt if they differ. Untrained parameters
  // have none.
  std::optional<std::set<size_t>> OptionsOf(const std::vector<size_t>& params) const {
    std::set<size_t> found;
    for (const size_t i : params)
      if (optimizer.entries[i]) found.insert(optimizer.group_of[i]);
    if (found.size() > 1) return std::nullopt;
    return found;
  }

  bool Fits(GroupRule rule) const {
    const auto groups = GroupsBy(rule);
    return std::ranges::all_of(groups, [&](const auto& g) { return OptionsOf(g).has_value(); });
  }

  // The option that keeps two parameters from being in one of the rule's groups.
  std::string DifferenceIn(GroupRule rule) const {
    for (const std::vector<size_t>& group : GroupsBy(rule)) {
      const auto first =
          std::ranges::find_if(group, [&](size_t i) { return optimizer.entries[i].has_value(); });
      for (const size_t i : group)
        if (optimizer.entries[i] && optimizer.group_of[i] != optimizer.group_of[*first])
          return OptionDifference(optimizer.groups[optimizer.group_of[*first]],
                                  source.params[*first].name,
                                  optimizer.groups[optimizer.group_of[i]], source.params[i].name);
    }
    return "";
  }

  Status FindOrder() {
    std::vector<GroupRule> tried = {GroupRule::kOne, GroupRule::kNorms, GroupRule::kBiases};
    if (optimizer.form) tried.insert(tried.begin(), optimizer.form->order.rule);
    if (asked) tried = {*asked};
    const auto fits = std::ranges::find_if(tried, [&](GroupRule rule) { return Fits(rule); });
    if (fits == tried.end())
      return Unsupported(
                 "the parameters have {} different sets of options, which are not the groups that "
                 "NxD's trainers make ({}): {}",
                 optimizer.groups.size(), asked ? nxd::GroupRuleName(*asked) : "one, norms, biases",
                 DifferenceIn(asked.value_or(GroupRule::kNorms)))
          .in(source.artifact.path)
          .hint("--no-optimizer leaves the optimizer's state out");
    optimizer.order = {*fits, optimizer.form && optimizer.form->order.tied_head};
    return OkStatus();
  }

  Status MakeGroups() {
    const auto groups = GroupsBy(optimizer.order.rule);
    const bool recorded = optimizer.form && optimizer.form->groups.size() == groups.size();
    std::vector<PickleDict> made;
    for (size_t g = 0; g < groups.size(); ++g) {
      made.push_back(recorded ? optimizer.form->groups[g] : PlainGroup());
      const std::set<size_t> options = *OptionsOf(groups[g]);
      if (!recorded) NoteDefaults(groups[g], options);
      if (options.empty() || optimizer.groups.empty()) continue;
      NXDKIT_TRY(TakeOptions(optimizer.groups[*options.begin()], made.back()));
      NoteOthers(groups[g], optimizer.groups[*options.begin()], made.back());
    }
    optimizer.groups = std::move(made);
    optimizer.group_of.assign(optimizer.entries.size(), 0);
    for (size_t g = 0; g < groups.size(); ++g)
      for (const size_t i : groups[g]) optimizer.group_of[i] = g;
    return OkStatus();
  }

  // "model.norm.weight and 4 other parameters", of the trained ones.
  std::string NameTrained(const std::vector<size_t>& group) const {
    std::vector<size_t> trained;
    for (const size_t i : group)
      if (optimizer.entries[i]) trained.push_back(i);
    return NameSome(source, trained);
  }

  // For trained parameters; without a record the group gets torch's own value.
  void NoteDefaults(const std::vector<size_t>& group, const std::set<size_t>& options) {
    if (options.empty()) return;
    static const PickleDict kNone;
    const size_t number = *options.begin();
    const std::vector<std::string> unsaid =
        UnsaidOptions(number < optimizer.groups.size() ? optimizer.groups[number] : kNone);
    if (!unsaid.empty())
      notes.push_back(
          fmt::format("the checkpoint does not have {} of {}: torch's defaults are written",
                      fmt::join(unsaid, ", "), NameTrained(group)));
  }

  // Notes options that are not AdamW's, and that the tag's groups did not have.
  void NoteOthers(const std::vector<size_t>& group, const PickleDict& options,
                  const PickleDict& made) {
    std::vector<std::string> others;
    for (const auto& [key, value] : options)
      if (key.string() && !FindAdamOption(*key.string()) && !SaidIn(made, *key.string()))
        others.push_back(fmt::format("{} ({})", EscapeControl(*key.string()), OptionText(value)));
    if (!others.empty())
      notes.push_back(fmt::format(
          "options of {} that AdamW does not know, and a tag has no place for, are left "
          "out: {}",
          NameTrained(group), fmt::join(others, ", ")));
  }

  // The checkpoint's options win; where they equal the record's, its spelling stays.
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

  // Adam's order. In a checkpoint the order of names is arbitrary: torch sorts them if there are
  // several ranks.
  void OrderEntries() {
    const auto place = [](const OptimizerEntry& entry) {
      return std::ranges::find(kAdamEntries, entry.name) - std::begin(kAdamEntries);
    };
    for (auto& entries : optimizer.entries)
      if (entries) std::ranges::stable_sort(*entries, {}, place);
  }

  // Stores steps as the record says; without one, as they are.
  Status StoreSteps() {
    if (!optimizer.form || optimizer.form->step == Dtype::kF32) return OkStatus();
    return ChangeSteps(source, [&](uint32_t i, OptimizerEntry& entry, double step) -> Status {
      if (!(step >= 0 && step < 9e15)) return Unsupported("step {} is not a count", step);
      if (optimizer.form->step) {
        StoreScalar(source, i, entry, *optimizer.form->step, step);
        return OkStatus();
      }
      entry.kind = EntryKind::kValue;
      entry.value = {static_cast<int64_t>(step)};
      entry.value_text = std::to_string(static_cast<int64_t>(step));
      return OkStatus();
    });
  }

  // Stores the weights as the module's, and again as masters, except those that have a master
  // weight next to them.
  Status AddMasters() {
    const size_t count = optimizer.entries.size();
    std::vector<uint32_t> made(count, UINT32_MAX);  // the new parameter for each
    for (uint32_t i = 0; i < count; ++i) {
      optimizer.has_masters_beside |= optimizer.masters[i].has_value();
      if (optimizer.masters[i]) continue;
      made[i] = static_cast<uint32_t>(source.params.size());
      LogicalTensor master = source.params[i];
      master.name += std::string("/") + nxd::kMasterWeights;
      source.params.push_back(std::move(master));
      optimizer.masters[i] = {
          nxd::kMasterWeights, EntryKind::kLike, made[i], SIZE_MAX, Dtype::kF32, {}, ""};
    }
    for (size_t t = 0, stored = source.bound.stored.size(); t < stored; ++t) {
      TensorLayout layout = source.bound.layout.tensors[t];
      if (layout.pieces.empty() || layout.pieces.front().param >= count) continue;
      if (made[layout.pieces.front().param] == UINT32_MAX) continue;
      for (Piece& piece : layout.pieces) {
        OptimizerEntry& master = *optimizer.masters[piece.param];
        if (master.stored == SIZE_MAX) {
          master.stored = source.bound.stored.size();
          master.dtype = source.bound.stored[t].dtype;
        }
        piece.param = made[piece.param];
      }
      source.bound.Add(std::move(layout), StoredTensor(source.bound.stored[t]));
    }
    for (size_t i = 0; i < count; ++i)
      if (optimizer.masters[i]->stored == SIZE_MAX)
        return Corrupt("the parameter is stored nowhere")
            .in(source.artifact.path)
            .on(source.params[i].name)
            .hint("ckpt-verify names the files and ranks");
    return OkStatus();
  }

  // ZeRO-1 has moments and master weights in F32, whatever the checkpoint was saved in; a tag with
  // a record may have had something else.
  void Widen() {
    const NamedDtypes wanted = optimizer.form ? optimizer.form->state : NamedDtypes();
    ForEachEntry(optimizer, [&](OptimizerEntry& entry) {
      if (entry.kind == EntryKind::kLike)
        entry.dtype = Holding(entry.dtype, wanted.Of(source.params[entry.param].name));
    });
  }
};

}  // namespace

Status ToNumberedState(BoundArtifact& source, std::optional<GroupRule> order,
                       std::vector<std::string>& notes) {
  if (!source.optimizer) return NameLosses(source, notes);
  if (source.optimizer->style != nxd::OptimizerStyle::kNamed) return OkStatus();
  return Numberer{source, order, notes}.Run();
}

}  // namespace nxdkit::training
