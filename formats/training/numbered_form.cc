#include "formats/training/numbered_form.h"

#include <algorithm>

#include "formats/training/keep_params.h"
#include "lib/base/errors.h"

namespace nxdkit::training {
namespace {

using torch::PickleDict;
using torch::PickleList;
using torch::PickleValue;

constexpr size_t kMaxGroups = 16;
constexpr int64_t kMaxPipelineRanks = 1'000'000;

// The names of the record.
constexpr char kKeys[] = "keys";
constexpr char kGroups[] = "param_groups";
constexpr char kOrder[] = "param_order";
constexpr char kTiedHead[] = "tied_head";
constexpr char kSizes[] = "shapes_are_sizes";
constexpr char kStep[] = "step";
constexpr char kNumber[] = "number";
constexpr char kWeights[] = "weights";
constexpr char kOtherWeights[] = "other_weights";
constexpr char kState[] = "state";
constexpr char kOtherState[] = "other_state";
constexpr char kStoresHead[] = "stores_head";
constexpr char kFusedGateUp[] = "fused_gate_up";
constexpr char kPipelineRanks[] = "pipeline_ranks";

PickleValue Text(std::string_view text) { return {std::string(text)}; }

// A group's options; its parameters are numbered again.
PickleDict WithoutParams(PickleDict group) {
  for (auto& [key, value] : group)
    if (key.string() && *key.string() == "params") value = PickleValue::MakeList({});
  return group;
}

Error Wrong(std::string_view name) {
  return Corrupt("\"{}\" of the record of a tag's form is missing, or something else", name);
}

template <typename T>
Result<T> ValueAt(const PickleValue& value, const char* name) {
  const PickleValue* item = value.Find(name);
  const T* found = item ? std::get_if<T>(&item->value) : nullptr;
  if (!found) return Wrong(name);
  return *found;
}

// Dtypes by name.
NamedDtypes Compact(const std::map<std::string, Dtype>& dtypes) {
  NamedDtypes out;
  std::map<Dtype, size_t> counts;
  for (const auto& [name, dtype] : dtypes) ++counts[dtype];
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
  if (most == counts.end()) return out;
  out.most = most->first;
  for (const auto& [name, dtype] : dtypes)
    if (dtype != out.most) out.others.emplace(name, dtype);
  return out;
}

// The dtypes of the module's weights in the tag's files.
NamedDtypes WeightDtypes(const BoundArtifact& tag) {
  std::map<std::string, Dtype> dtypes;
  for (size_t t = 0; t < tag.bound.stored.size(); ++t)
    for (const Piece& piece : tag.bound.layout.tensors[t].pieces)
      if (piece.param < tag.model_params())
        dtypes.emplace(tag.params[piece.param].name, tag.bound.stored[t].dtype);
  return Compact(dtypes);
}

NamedDtypes StateDtypes(const BoundArtifact& tag) {
  std::map<std::string, Dtype> dtypes;
  ForEachEntry(*tag.optimizer, [&](const OptimizerEntry& entry) {
    if (entry.kind == OptimizerEntry::Kind::kLike)
      dtypes.emplace(tag.params[entry.param].name, entry.dtype);
  });
  return Compact(dtypes);
}

PickleValue OthersOf(const NamedDtypes& dtypes) {
  PickleDict others;
  for (const auto& [name, dtype] : dtypes.others) others.push_back({Text(name), {dtype}});
  return PickleValue::MakeDict(std::move(others));
}

// A record from before others existed has none.
Status ReadOthers(const PickleValue& value, const char* name, NamedDtypes& dtypes) {
  const PickleValue* others = value.Find(name);
  if (!others) return OkStatus();
  if (!others->dict()) return Wrong(name);
  for (const auto& [param, other] : *others->dict()) {
    const Dtype* dtype = std::get_if<Dtype>(&other.value);
    if (!param.string() || !dtype) return Wrong(name);
    dtypes.others.emplace(*param.string(), *dtype);
  }
  return OkStatus();
}

}  // namespace

NumberedForm FormOf(const BoundArtifact& tag) {
  const BoundOptimizer& optimizer = *tag.optimizer;
  NumberedForm form;
  form.keys = optimizer.keys;
  form.order = optimizer.order;
  form.shapes_are_sizes = optimizer.shapes_are_sizes;
  form.stores_head = StoresHead(tag);
  form.fused_gate_up = optimizer.fused_gate_up;
  form.pp = optimizer.pp;
  for (const PickleDict& group : optimizer.groups) form.groups.push_back(WithoutParams(group));
  for (const auto& entries : optimizer.entries)
    for (const OptimizerEntry& entry : entries.value_or(std::vector<OptimizerEntry>()))
      if (entry.name == "step" && entry.kind == OptimizerEntry::Kind::kScalar)
        form.step = entry.dtype;
  form.weights = WeightDtypes(tag);
  form.state = StateDtypes(tag);
  return form;
}

PickleValue WriteNumberedForm(const NumberedForm& form) {
  PickleList keys;
  PickleList groups;
  for (const std::string& key : form.keys) keys.push_back(Text(key));
  for (const PickleDict& group : form.groups) groups.push_back(PickleValue::MakeDict(group));
  return PickleValue::MakeDict({{Text(kKeys), PickleValue::MakeList(std::move(keys))},
                                {Text(kGroups), PickleValue::MakeList(std::move(groups))},
                                {Text(kOrder), Text(nxd::GroupRuleName(form.order.rule))},
                                {Text(kTiedHead), {form.order.tied_head}},
                                {Text(kSizes), {form.shapes_are_sizes}},
                                {Text(kStep), form.step ? PickleValue{*form.step} : Text(kNumber)},
                                {Text(kWeights), {form.weights.most}},
                                {Text(kOtherWeights), OthersOf(form.weights)},
                                {Text(kState), {form.state.most}},
                                {Text(kOtherState), OthersOf(form.state)},
                                {Text(kStoresHead), {form.stores_head}},
                                {Text(kFusedGateUp), {form.fused_gate_up}},
                                {Text(kPipelineRanks), {int64_t{form.pp}}}});
}

Result<NumberedForm> ReadNumberedForm(const PickleValue& value) {
  NumberedForm form;
  const PickleValue* keys = value.Find(kKeys);
  const PickleValue* groups = value.Find(kGroups);
  if (!keys || !keys->list()) return Wrong(kKeys);
  if (!groups || !groups->list() || groups->list()->size() > kMaxGroups) return Wrong(kGroups);
  for (const PickleValue& key : *keys->list()) {
    if (!key.string()) return Wrong(kKeys);
    form.keys.push_back(*key.string());
  }
  for (const PickleValue& group : *groups->list()) {
    if (!group.dict()) return Wrong(kGroups);
    for (const auto& [key, option] : *group.dict())
      if (!key.string()) return Wrong(kGroups);
    form.groups.push_back(*group.dict());
  }
  NXDKIT_ASSIGN(const std::string order, ValueAt<std::string>(value, kOrder));
  const auto rule = nxd::GroupRuleFromName(order);
  if (!rule) return Wrong(kOrder);
  form.order.rule = *rule;
  NXDKIT_ASSIGN(form.order.tied_head, ValueAt<bool>(value, kTiedHead));
  NXDKIT_ASSIGN(form.shapes_are_sizes, ValueAt<bool>(value, kSizes));
  if (const PickleValue* step = value.Find(kStep); step && !step->string())
    NXDKIT_TRY(ValueAt<Dtype>(value, kStep).To(form.step));
  NXDKIT_ASSIGN(form.weights.most, ValueAt<Dtype>(value, kWeights));
  NXDKIT_TRY(ReadOthers(value, kOtherWeights, form.weights));
  if (value.Find(kState)) NXDKIT_TRY(ValueAt<Dtype>(value, kState).To(form.state.most));
  NXDKIT_TRY(ReadOthers(value, kOtherState, form.state));
  NXDKIT_ASSIGN(form.stores_head, ValueAt<bool>(value, kStoresHead));
  NXDKIT_ASSIGN(form.fused_gate_up, ValueAt<bool>(value, kFusedGateUp));
  if (const PickleValue* pp = value.Find(kPipelineRanks)) {
    const int64_t* ranks = pp->integer();
    if (!ranks || *ranks < 0 || *ranks > kMaxPipelineRanks) return Wrong(kPipelineRanks);
    form.pp = static_cast<int>(*ranks);
  }
  return form;
}

}  // namespace nxdkit::training
