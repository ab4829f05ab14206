#include "formats/kinds/megatron/bind_megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "formats/kinds/bind.h"
#include "formats/kinds/megatron/buckets.h"
#include "formats/kinds/megatron/megatron_state.h"
#include "formats/kinds/megatron/names.h"
#include "formats/megatron/fragments.h"
#include "formats/nxd/optimizer_set.h"
#include "formats/training/adam_options.h"
#include "formats/training/check_masters.h"
#include "formats/training/state_keys.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

using megatron::Key;
using megatron::OptionGroup;
using torch::PickleValue;

class Mapper {
 public:
  Mapper(const MegatronState& state, const models::Model& model, MegatronNames names,
         bool optimizer)
      : state_(state),
        stored_(*state.stored),
        model_(model),
        names_(std::move(names)),
        optimizer_(optimizer) {}

  Result<dcp::Folder> Run() {
    out_.path = stored_.path;
    out_.form = stored_.form;
    out_.files = stored_.files;
    out_.archives = stored_.archives;
    NXDKIT_TRY(AddEntries(Key::Kind::kWeight));
    if (optimizer_) NXDKIT_TRY(AddOptimizer());
    for (const dcp::StoredEntry& entry : out_.tensors)
      NXDKIT_TRY(dcp::CheckCover(entry).on(entry.key));
    return std::move(out_);
  }

  std::vector<std::string> Warnings() const {
    std::vector<std::string> warnings;
    if (!unsaid_.empty())
      warnings.push_back(
          fmt::format("the options of {} of the optimizer's parameters are not known, the first is "
                      "{}: several groups fit",
                      unsaid_.size(), unsaid_.front()));
    if (!stateless_.empty() && stateless_.size() < model_.params.size())
      warnings.push_back(
          fmt::format("the optimizer has no state for {} parameters, the first is {}",
                      stateless_.size(), stateless_.front()));
    return warnings;
  }

  std::vector<std::string> Proofs() const {
    std::vector<std::string> proofs;
    proofs.push_back(
        fmt::format("{} tensors of Megatron-Core are {} parameters of the model and {} others, "
                    "each once and whole",
                    weights_, model_.params.size(), names_.carried()));
    for (const auto& [key, cut] : names_.cut_rows())
      proofs.push_back(
          fmt::format("{}: the {} rows after the vocabulary are padding and are cut "
                      "off; they are {}",
                      key, cut.rows, cut.zero ? "zeros" : "not zeros"));
    return proofs;
  }

 private:
  Status AddEntries(Key::Kind kind) {
    for (const dcp::StoredEntry& entry : stored_.tensors) {
      const Key key = megatron::ParseKey(entry.key);
      if (key.kind != kind) continue;
      weights_ += kind == Key::Kind::kWeight;
      // Tensors carried next to the model's parameters are not trained here.
      if (kind == Key::Kind::kState && !key.mtp) NXDKIT_TRY(AddState(entry, key));
      if (kind == Key::Kind::kWeight) NXDKIT_TRY(names_.Add(entry, key, out_.tensors));
    }
    return OkStatus();
  }

  // The tensor has the parameter's own shape, or is cut into fragments.
  Status AddState(const dcp::StoredEntry& entry, const Key& key) {
    const dcp::StoredEntry* weight = WeightOf(entry.key);
    const std::optional<Shape> shape =
        weight ? std::optional(weight->shape) : names_.ShapeOf(key, entry.shape);
    if (!shape || !megatron::IsFragmented(entry.shape, *shape))
      return names_.Add(entry, key, out_.tensors);
    dcp::StoredEntry joined{entry.key, entry.dtype, *shape, {}};
    NXDKIT_ASSIGN(joined.chunks, megatron::JoinFragments(entry, *shape));
    return names_.Add(joined, key, out_.tensors);
  }

  // The weight that an optimizer's key belongs to: its name follows "optimizer.state.WHAT.".
  const dcp::StoredEntry* WeightOf(const std::string& key) const {
    constexpr std::string_view kState = "optimizer.state.";
    const size_t at = key.find(kState);
    const size_t dot = at == std::string::npos ? at : key.find('.', at + kState.size());
    const auto found =
        dot == std::string::npos ? weight_of_.end() : weight_of_.find(key.substr(dot + 1));
    return found == weight_of_.end() ? nullptr : found->second;
  }

  Status AddOptimizer() {
    NXDKIT_TRY(RefuseOtherForms());
    for (const dcp::StoredEntry& entry : stored_.tensors) weight_of_.emplace(entry.key, &entry);
    const size_t weights = out_.tensors.size();
    NXDKIT_TRY(AddEntries(Key::Kind::kState));
    if (HasBuckets(stored_)) NXDKIT_TRY(AddBuckets());
    std::set<std::string> trained;
    for (size_t i = weights; i < out_.tensors.size(); ++i)
      trained.insert(
          SplitStateKey(std::string_view(out_.tensors[i].key).substr(kOptimizerState.size()))
              .first);
    for (const models::Param& param : model_.params)
      if (trained.contains(param.name))
        NXDKIT_TRY(AddStepAndOptions(param));
      else
        stateless_.push_back(param.name);
    return OkStatus();
  }

  // A state in another form is refused: if it were left out, nobody would notice.
  Status RefuseOtherForms() const {
    const auto refuse = [](const std::string& key) {
      return Unsupported("the optimizer's state has a form that is not supported")
          .on(key)
          .hint(
              "--no-optimizer reads only the weights; with --dist-ckpt-optim-fully-reshardable "
              "Megatron-LM saves the state by parameters");
    };
    for (const dcp::StoredEntry& entry : stored_.tensors)
      if (megatron::ParseKey(entry.key).kind == Key::Kind::kOther) return refuse(entry.key);
    for (const dcp::ObjectEntry& object : stored_.metadata.objects)
      if (object.key.find("optimizer.") != std::string::npos &&
          object.key.find(".param_state/") != std::string::npos)
        return refuse(object.key);
    return OkStatus();
  }

  Status AddBuckets() {
    NXDKIT_ASSIGN(const std::vector<dcp::StoredEntry> entries,
                  JoinBuckets(stored_, model_.config.layers));
    for (const dcp::StoredEntry& entry : entries) {
      const Key key = megatron::ParseKey(entry.key);
      if (!key.mtp) NXDKIT_TRY(names_.Add(entry, key, out_.tensors));
    }
    return OkStatus();
  }

  // The group of a parameter is not stored. Megatron's own rule: weight decay applies to matrices,
  // and with apply_wd_to_qk_layernorm to the norms of q and k; experts have groups of their own,
  // and so have the embedding and the head when their learning rate differs. nullptr if several
  // groups with different options fit.
  const OptionGroup* GroupOf(const models::Param& param) const {
    using models::Role;
    const bool is_qk_norm = param.role == Role::kQueryNorm || param.role == Role::kKeyNorm;
    const bool decays = param.shape.size() > 1 ||
                        (is_qk_norm && state_.common.Flag("apply_wd_to_qk_layernorm") == true);
    const bool decoupled = param.role == Role::kEmbedding || param.role == Role::kLmHead;
    const OptionGroup* found = nullptr;
    for (const OptionGroup& group : state_.optimizer_common.groups) {
      if (group.experts != (param.expert >= 0) && Any(&OptionGroup::experts, true)) continue;
      if (group.decays != decays && Any(&OptionGroup::decays, false)) continue;
      if (group.decoupled != decoupled && Any(&OptionGroup::decoupled, true)) continue;
      if (found && !SameOptions(*found, group)) return nullptr;
      found = &group;
    }
    return found;
  }
  bool Any(bool OptionGroup::*flag, bool value) const {
    return std::ranges::count(state_.optimizer_common.groups, value, flag) > 0;
  }
  static bool SameOptions(const OptionGroup& a, const OptionGroup& b) {
    if (a.step != b.step || a.options.size() != b.options.size()) return false;
    for (size_t i = 0; i < a.options.size(); ++i) {
      const Result<bool> same = SameOption(a.options[i].second, b.options[i].second);
      if (!same.ok() || !*same) return false;
    }
    return true;
  }

  Status AddStepAndOptions(const models::Param& param) {
    const OptionGroup* group = GroupOf(param);
    if (!group && !state_.optimizer_common.groups.empty()) unsaid_.push_back(param.name);
    const std::optional<double> step =
        group && group->step ? group->step : state_.optimizer_common.CommonStep();
    if (step) AddStep(param.name, *step);
    if (!group) return OkStatus();
    for (const auto& [option, value] : group->options)
      out_.metadata.objects.push_back(
          {fmt::format("{}{}.{}", kOptimizerGroups, param.name, *option.string()), {}, value});
    return OkStatus();
  }

  void AddStep(const std::string& name, double step) {
    std::string key = fmt::format("{}{}.step", kOptimizerState, name);
    StoredTensor stored = ScalarTensor(key, step, state_.optimizer_common.file);
    out_.tensors.push_back({std::move(key), Dtype::kF32, {}, {{{}, 0, std::move(stored)}}});
  }

  const MegatronState& state_;
  const dcp::Folder& stored_;
  const models::Model& model_;
  MegatronNames names_;
  bool optimizer_;
  dcp::Folder out_;
  std::map<std::string, const dcp::StoredEntry*, std::less<>> weight_of_;  // by its key
  size_t weights_ = 0;
  std::vector<std::string> unsaid_;     // parameters with unknown options
  std::vector<std::string> stateless_;  // parameters without state
};

}  // namespace

Status BindMegatron(BoundArtifact& bound, const InputHints& hints) {
  NXDKIT_TRY(RequireFamily(bound));
  NXDKIT_TRY(CheckArguments(bound.artifact));
  const MegatronState& state = *MegatronStateOf(bound.artifact);
  NXDKIT_ASSIGN(MegatronNames names, MegatronNames::Make(*bound.model).in(bound.artifact.path));
  Mapper mapper(state, *bound.model, std::move(names), hints.optimizer);
  NXDKIT_ASSIGN(dcp::Folder folder, mapper.Run().in(bound.artifact.path));
  bound.artifact.proofs = mapper.Proofs();
  for (std::string& warning : mapper.Warnings())
    bound.artifact.warnings.push_back(std::move(warning));
  ReplaceFolder(bound.artifact, std::make_shared<const dcp::Folder>(std::move(folder)));
  bound.params.clear();
  NXDKIT_TRY(BindDcp(bound, hints));
  return bound.optimizer ? training::ProveState(bound) : OkStatus();
}

}  // namespace nxdkit::kinds
