#include "formats/zero/plain_optimizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "formats/dcp/match.h"
#include "lib/base/errors.h"

namespace nxdkit::zero {
namespace {

using torch::PickleValue;

class PlainReader {
 public:
  PlainReader(const torch::Archive& archive, const ModelFile& model, const std::string& file,
              TagEntries& entries, Facts& facts)
      : archive_(archive), model_(model), file_(file), entries_(entries), facts_(facts) {}

  Status Run() {
    const PickleValue* inner = model_.optimizer->Find("optimizer_state_dict");
    const PickleValue& optimizer = inner ? *inner : *model_.optimizer;
    const PickleValue* groups = optimizer.Find("param_groups");
    const PickleValue* states = optimizer.Find("state");
    if (!groups || !groups->list() || !states || !states->dict())
      return Unsupported("the optimizer of stage 0 has no state and param_groups");
    states_ = states;
    NXDKIT_TRY(FindMasters());
    FindCandidates();
    for (size_t g = 0; g < groups->list()->size(); ++g)
      NXDKIT_TRY(AddGroup((*groups->list())[g], g));
    return OkStatus();
  }

 private:
  const StoredTensor* TensorIn(const PickleValue* value) const {
    const torch::TensorIndex* index = value ? value->tensor() : nullptr;
    return index ? &archive_.tensors.at(index->index) : nullptr;
  }

  // fp32_groups: a list of whole tensors for each group.
  Status FindMasters() {
    const PickleValue* groups = model_.optimizer->Find("fp32_groups");
    if (!groups || !groups->list()) {
      if (model_.optimizer->Find("fp32_groups_flat"))
        return Unsupported("the flat master weights of stage 0 with fp16 are not read");
      return OkStatus();
    }
    for (const PickleValue& group : *groups->list()) {
      masters_of_.emplace_back();
      if (!group.list()) return Corrupt("fp32_groups is not a list of lists of tensors");
      for (const PickleValue& value : *group.list()) {
        const StoredTensor* stored = TensorIn(&value);
        if (!stored) return Corrupt("fp32_groups is not a list of lists of tensors");
        masters_of_.back().push_back(stored);
      }
    }
    return OkStatus();
  }

  // What may be trained: no buffer, and no second name of a tensor before it.
  void FindCandidates() {
    std::set<std::tuple<const Storage*, uint64_t, Shape>> seen;
    for (const NamedTensor& tensor : model_.module)
      if (!model_.buffers.contains(tensor.name) && Info(tensor.stored.dtype).floating &&
          seen.emplace(tensor.stored.storage.get(), tensor.stored.offset, tensor.stored.shape)
              .second)
        candidates_.push_back(&tensor);
  }

  const PickleValue* StateOf(int64_t number) const {
    for (const auto& [key, state] : *states_->dict())
      if (key.integer() && *key.integer() == number) return &state;
    return nullptr;
  }

  // The shape that is known of a number: of its master weight, or of what is kept of it.
  std::optional<Shape> ShapeOf(int64_t number, const StoredTensor* master) const {
    if (master) return master->shape;
    const PickleValue* state = StateOf(number);
    if (!state || !state->dict()) return std::nullopt;
    for (const auto& [name, value] : *state->dict())
      if (const StoredTensor* stored = TensorIn(&value); stored && !stored->shape.empty())
        return stored->shape;
    return std::nullopt;
  }

  Status AddGroup(const PickleValue& group, size_t g) {
    const PickleValue* params = group.Find("params");
    if (!params || !params->list()) return Corrupt("a group of options without \"params\"");
    const bool has_masters = g < masters_of_.size();
    if (has_masters && masters_of_[g].size() != params->list()->size())
      return Corrupt("group {} has {} parameters and {} master weights", g, params->list()->size(),
                     masters_of_[g].size());
    std::vector<std::optional<Shape>> shapes;
    for (size_t i = 0; i < params->list()->size(); ++i) {
      const int64_t* number = (*params->list())[i].integer();
      if (!number) return Corrupt("a group of options of what is no number");
      shapes.push_back(ShapeOf(*number, has_masters ? masters_of_[g][i] : nullptr));
    }
    const auto found =
        dcp::MatchInOrder(shapes.size(), candidates_.size(), [&](size_t i, size_t j) {
          return !shapes[i] || *shapes[i] == candidates_[j]->stored.shape;
        });
    if (!found)
      return Unsupported(
          "the {} parameters of group {} are not as many of the module's in its "
          "order",
          shapes.size(), g);
    facts_.groups.emplace_back();
    for (size_t i = 0; i < shapes.size(); ++i) {
      const NamedTensor& tensor = *candidates_[found->first[i]];
      if (found->first[i] != found->last[i])
        return Unsupported("number {} of the optimizer may be {} or {}: the sizes do not tell",
                           *(*params->list())[i].integer(), tensor.name,
                           candidates_[found->last[i]]->name)
            .hint("stage 0 keeps no names; --no-optimizer leaves the optimizer's state out");
      if (!used_.insert(tensor.name).second)
        return Corrupt("two groups of options have {}", tensor.name);
      NXDKIT_TRY(AddState(tensor.name, *(*params->list())[i].integer(), group));
      if (has_masters)
        NXDKIT_TRY(entries_.AddWhole(file_, StateKey(tensor.name, kMasters), *masters_of_[g][i]));
      facts_.groups.back().push_back(tensor.name);
      ++facts_.trained;
    }
    return OkStatus();
  }

  Status AddState(const std::string& name, int64_t number, const PickleValue& group) {
    NXDKIT_TRY(entries_.AddOptions(name, group));
    const PickleValue* state = StateOf(number);
    if (!state || !state->dict()) return OkStatus();
    for (const auto& [key, value] : *state->dict()) {
      if (!key.string()) continue;
      const StoredTensor* stored = TensorIn(&value);
      if (*key.string() == "step") {
        std::optional<double> step = NumberOf(&value);
        if (stored && *ElementCount(stored->shape) == 1) {
          StoredTensor scalar = *stored;
          scalar.shape = scalar.strides = {};
          NXDKIT_TRY(ReadScalar(scalar).To(step));
        }
        if (step) NXDKIT_TRY(entries_.AddStep(file_, name, *step));
      } else if (stored) {
        NXDKIT_TRY(entries_.AddWhole(file_, StateKey(name, *key.string()), *stored));
      }
    }
    return OkStatus();
  }

  const torch::Archive& archive_;
  const ModelFile& model_;
  const std::string& file_;
  TagEntries& entries_;
  Facts& facts_;
  const PickleValue* states_ = nullptr;
  std::vector<std::vector<const StoredTensor*>> masters_of_;  // by group
  std::vector<const NamedTensor*> candidates_;
  std::set<std::string> used_;
};

}  // namespace

Status AddPlainOptimizer(const torch::Archive& archive, const ModelFile& model,
                         const std::string& file, TagEntries& entries, Facts& facts) {
  return PlainReader(archive, model, file, entries, facts).Run();
}

}  // namespace nxdkit::zero
