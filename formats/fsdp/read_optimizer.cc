#include "formats/fsdp/read_optimizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "formats/fsdp/match.h"
#include "formats/fsdp/read_model.h"
#include "formats/torch/pickle_writer.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::fsdp {
namespace {

using torch::PickleDict;
using torch::PickleList;
using torch::PickleValue;

constexpr std::string_view kParams = "params";

bool IsNone(const PickleValue& value) {
  return std::holds_alternative<PickleValue::None>(value.value);
}

bool HasElements(const Kept& kept) { return !kept.value && !kept.stored.shape.empty(); }

}  // namespace

Status OptimizerReader::Add(const torch::Archive& archive, uint32_t file, int rank) {
  RankState state;
  state.file = file;
  state.rank = rank;
  if (!IsNone(archive.root)) {
    const PickleValue* dict = archive.root.Find("state");
    const PickleValue* groups = archive.root.Find("param_groups");
    const bool empty = archive.root.dict() && archive.root.dict()->empty();
    if (!empty && (!dict || !dict->dict() || !groups || !groups->list()))
      return Unsupported("no optimizer's state: there is no \"state\" and no \"param_groups\"");
    if (!empty) {
      NXDKIT_TRY(AddState(archive, *dict->dict(), state));
      NXDKIT_TRY(AddGroups(*groups, rank));
    }
  }
  ranks_.push_back(std::move(state));
  return OkStatus();
}

Status OptimizerReader::AddState(const torch::Archive& archive, const PickleDict& state,
                                 RankState& to) {
  dtensor::PlacedReader placed(archive);
  for (const auto& [key, value] : state) {
    const std::string name = key.string()    ? *key.string()
                             : key.integer() ? std::to_string(*key.integer())
                                             : "";
    if (name.empty() || !value.dict())
      return Unsupported("a key of the optimizer's state is neither a name nor a number");
    std::vector<Kept> all;
    for (const auto& [what, item] : *value.dict()) {
      if (!what.string())
        return Unsupported("an entry of the optimizer's state has no name").on(name);
      Kept kept{*what.string(), {}, std::nullopt, std::nullopt};
      if (const torch::TensorIndex* index = item.tensor()) {
        kept.stored = archive.tensors.at(index->index);
      } else if (dtensor::PlacedReader::IsPlaced(item)) {
        NXDKIT_ASSIGN(std::vector<dtensor::PlacedTensor> parts, placed.Read(item).on(name));
        for (dtensor::PlacedTensor& part : parts)
          all.push_back({kept.name, std::move(part.stored), std::move(part.place), std::nullopt});
        continue;
      } else {
        kept.value = item;
      }
      all.push_back(std::move(kept));
    }
    if (key.string())
      to.by_name.emplace(name, std::move(all));
    else
      to.by_number.emplace(*key.integer(), std::move(all));
  }
  return OkStatus();
}

Status OptimizerReader::AddGroups(const PickleValue& groups, int rank) {
  for (const PickleValue& group : *groups.list()) {
    if (!group.dict()) return Corrupt("a group of options that is not a dict");
    for (const auto& [option, value] : *group.dict())
      if (value.tensor())
        return Unsupported("the option {} is a tensor, expected a number",
                           option.string() ? EscapeControl(*option.string()) : "");
  }
  NXDKIT_ASSIGN(std::string text, torch::WritePickle(groups, {}));
  if (groups_text_.empty()) {
    groups_ = groups;
    groups_text_ = std::move(text);
    return OkStatus();
  }
  if (text == groups_text_) return OkStatus();
  return Corrupt("the options of rank {} are not those of the earlier ranks", rank)
      .hint("the files may be of two saves");
}

Status OptimizerReader::Finish() {
  const auto named = [](const RankState& rank) { return !rank.by_name.empty(); };
  const auto numbered = [](const RankState& rank) { return !rank.by_number.empty(); };
  const bool any_named = std::ranges::any_of(ranks_, named);
  const bool any_numbered = std::ranges::any_of(ranks_, numbered);
  if (any_named && any_numbered) return Unsupported("an optimizer by names and by numbers");
  if (any_named)
    NXDKIT_TRY(AddNamed());
  else if (any_numbered)
    NXDKIT_TRY(HasSlices() ? AddFlat() : AddNumbered());
  return AddOptions();
}

bool OptimizerReader::HasSlices() const {
  const bool flat_model = std::ranges::all_of(
      facts_.tensors, [](const ModelTensor& tensor) { return tensor.shape.size() <= 1; });
  bool flat = false;
  for (const RankState& rank : ranks_)
    for (const auto& [number, all] : rank.by_number)
      for (const Kept& kept : all) {
        if (kept.place || kept.stored.shape.size() > 1) return false;
        flat |= HasElements(kept);
      }
  return flat && !flat_model;
}

Status OptimizerReader::AddKept(const RankState& rank, const std::string& name, const Kept& kept) {
  const std::string key = fmt::format("{}{}.{}", kStateKeys, name, kept.name);
  if (kept.value) {
    PickleValue path = PickleValue::MakeTuple({{"optimizer"}, {"state"}, {name}, {kept.name}});
    return entries_.AddObject(key, *kept.value, std::move(path), true);
  }
  if (!kept.stored.storage) return OkStatus();
  if (kept.place && kept.place->mesh && kept.place->mesh != checked_)
    NXDKIT_TRY(CheckMesh(*kept.place->mesh, facts_.set.world, rank.rank).on(key));
  if (kept.place) checked_ = kept.place->mesh;
  const Shape& shape = kept.place ? kept.place->shape : kept.stored.shape;
  NXDKIT_ASSIGN(const dtensor::LocalShard shard, PartsOf(kept.stored, kept.place).on(key));
  return entries_.Add({rank.file, rank.rank}, key, shape, kept.stored, shard,
                      kept.place.has_value());
}

Status OptimizerReader::AddNamed() {
  facts_.form = OptimizerForm::kNames;
  for (const RankState& rank : ranks_)
    for (const auto& [name, all] : rank.by_name)
      for (const Kept& kept : all) NXDKIT_TRY(AddKept(rank, name, kept));
  return OkStatus();
}

// Parameters are distributed where anything is; the optimizer has one of a tied pair.
std::vector<size_t> OptimizerReader::Candidates() const {
  const bool any_placed = std::ranges::any_of(facts_.tensors, &ModelTensor::placed);
  std::vector<size_t> out;
  for (size_t i = 0; i < facts_.tensors.size(); ++i) {
    const ModelTensor& tensor = facts_.tensors[i];
    if (!tensor.shared && (tensor.placed || !any_placed) && Info(tensor.dtype).floating)
      out.push_back(i);
  }
  return out;
}

Result<const Unit*> OptimizerReader::UnitOf(int64_t number) const {
  const auto unit = units_.find(number);
  if (unit == units_.end())
    return Corrupt("the optimizer has state of number {}, which is in no group", number);
  return &unit->second;
}

// For slices: ": number 0 has 12 elements on each of 3 ranks, model.norm.weight has 32 in all".
std::string OptimizerReader::FirstMisfit(const std::vector<int64_t>& numbers,
                                         const std::vector<Unit>& units, const Fits& fits) const {
  for (size_t i = 0; i < std::min(numbers.size(), units.size()); ++i) {
    const auto lengths = lengths_.find(numbers[i]);
    if (lengths == lengths_.end() || fits(numbers[i], units[i])) continue;
    std::vector<int64_t> each;
    for (const auto& [shard, length] : lengths->second) each.push_back(length);
    const auto [least, most] = std::ranges::minmax(each);
    const ModelTensor& first = facts_.tensors[units[i].tensors.front()];
    return fmt::format(": number {} has {} to {} elements on each of {} ranks, and {}{} has {}",
                       numbers[i], least, most, lengths->second.size(), first.name,
                       units[i].tensors.size() > 1 ? " with what is flattened with it" : "",
                       units[i].elements);
  }
  return "";
}

Result<std::map<int64_t, Unit>> OptimizerReader::UnitsOfNumbers(const std::vector<Unit>& units,
                                                                const Fits& fits) const {
  const auto name = [&](size_t unit) { return facts_.tensors[units[unit].tensors.front()].name; };
  std::map<int64_t, Unit> out;
  std::set<size_t> used;
  for (const PickleValue& group : *groups_.list()) {
    const PickleValue* params = group.Find(kParams);
    if (!params || !params->list()) return Corrupt("a group of options without \"params\"");
    std::vector<int64_t> numbers;
    for (const PickleValue& param : *params->list()) {
      if (!param.integer()) return Corrupt("a group of options whose parameters are not numbers");
      numbers.push_back(*param.integer());
    }
    const auto found = MatchInOrder(numbers.size(), units.size(),
                                    [&](size_t i, size_t j) { return fits(numbers[i], units[j]); });
    if (!found)
      return Unsupported(
                 "the optimizer's groups have {} entries, whose sizes are not those of as many of "
                 "the model's {} in order{}",
                 numbers.size(), units.size(), FirstMisfit(numbers, units, fits))
          .hint(
              "only the trainer's code knows which parameter a number is; --no-optimizer leaves "
              "the optimizer's state out");
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t unit = found->first[i];
      if (unit != found->last[i])
        return Unsupported("number {} of the optimizer may be {} or {}: the sizes do not decide",
                           numbers[i], name(unit), name(found->last[i]))
            .hint("--no-optimizer leaves the optimizer's state out");
      if (!used.insert(unit).second || !out.emplace(numbers[i], units[unit]).second)
        return Corrupt("two groups of options have {}", name(unit));
    }
  }
  return out;
}

// FSDP1 stores a tied head as a tensor of its own, which the optimizer does not have. The two have
// the same bytes; without tying, their first bytes already differ.
Result<bool> OptimizerReader::HasTiedHead(const std::vector<size_t>& candidates) const {
  constexpr uint64_t kCompared = 1 << 20;
  if (candidates.size() < 2) return false;
  const ModelTensor& first = facts_.tensors[candidates.front()];
  const ModelTensor& last = facts_.tensors[candidates.back()];
  if (!last.name.ends_with("lm_head.weight") || last.shape != first.shape ||
      last.dtype != first.dtype)
    return false;
  const dcp::StoredEntry* a = entries_.Find(first.name);
  const dcp::StoredEntry* b = entries_.Find(last.name);
  if (!a || !b || a->chunks.size() != b->chunks.size()) return false;
  for (size_t i = 0; i < a->chunks.size(); ++i) {
    const StoredTensor& x = a->chunks[i].stored;
    const StoredTensor& y = b->chunks[i].stored;
    if (a->chunks[i].box != b->chunks[i].box || !IsPacked(x) || !IsPacked(y)) return false;
    NXDKIT_ASSIGN(const uint64_t bytes, PackedBytes(x.dtype, x.shape));
    std::vector<std::byte> left(std::min(bytes, kCompared)), right(left.size());
    NXDKIT_TRY(x.storage->ReadAt(x.offset, left));
    NXDKIT_TRY(y.storage->ReadAt(y.offset, right));
    if (left != right) return false;
  }
  return true;
}

// Layer numbers ascend in the state dict of a model: names sorted in another way do not show the
// order of its parameters.
Status OptimizerReader::CheckOrder(const std::vector<size_t>& candidates) const {
  std::map<std::string, int64_t> last;
  for (const size_t i : candidates) {
    const auto [prefix, number] = LayerNumber(facts_.tensors[i].name);
    if (prefix.empty()) continue;
    const auto [known, added] = last.emplace(prefix, number);
    if (!added && number < known->second)
      return Unsupported("the names are not in the order of the model: {} is after layer {}",
                         facts_.tensors[i].name, known->second)
          .hint(
              "the parameters of the optimizer's numbers are unknown; --no-optimizer leaves its "
              "state out");
    known->second = number;
  }
  return OkStatus();
}

Result<std::map<int64_t, Unit>> OptimizerReader::TensorsOfNumbers(MakeUnits make,
                                                                  const Fits& fits) const {
  std::vector<size_t> candidates = Candidates();
  NXDKIT_TRY(CheckOrder(candidates));
  NXDKIT_ASSIGN(const bool tied, HasTiedHead(candidates));
  if (tied) candidates.pop_back();
  return UnitsOfNumbers(make(facts_.tensors, candidates), fits);
}

Status OptimizerReader::AddNumbered() {
  facts_.form = OptimizerForm::kNumbers;
  std::map<int64_t, Shape> shapes;
  for (const RankState& rank : ranks_)
    for (const auto& [number, all] : rank.by_number)
      for (const Kept& kept : all)
        if (HasElements(kept))
          shapes.emplace(number, kept.place ? kept.place->shape : kept.stored.shape);
  const Fits fits = [&](int64_t number, const Unit& unit) {
    const auto shape = shapes.find(number);
    return shape == shapes.end() || shape->second == facts_.tensors[unit.tensors.front()].shape;
  };
  NXDKIT_TRY(TensorsOfNumbers(SingleUnits, fits).To(units_));
  for (const RankState& rank : ranks_)
    for (const auto& [number, all] : rank.by_number) {
      NXDKIT_ASSIGN(const Unit* unit, UnitOf(number));
      for (const Kept& kept : all)
        NXDKIT_TRY(AddKept(rank, facts_.tensors[unit->tensors.front()].name, kept));
    }
  return OkStatus();
}

// If nothing is placed, every rank has the whole model, as with FSDP1 on one rank, or with no cut.
bool OptimizerReader::AnyPlaced() const {
  return std::ranges::any_of(facts_.tensors, &ModelTensor::placed);
}

int OptimizerReader::ShardRanks() const {
  if (facts_.mesh) return static_cast<int>(facts_.mesh->shape.back());
  return AnyPlaced() ? facts_.set.world : 1;
}

int OptimizerReader::ShardOf(int rank) const {
  if (!facts_.mesh) return AnyPlaced() ? rank : 0;
  const auto place = facts_.mesh->PlaceOf(rank);
  return place ? static_cast<int>(place->back()) : rank;
}

void OptimizerReader::MeasureSlices() {
  for (const RankState& rank : ranks_)
    for (const auto& [number, all] : rank.by_number)
      for (const Kept& kept : all)
        if (HasElements(kept)) lengths_[number][ShardOf(rank.rank)] = kept.stored.shape[0];
}

// FSDP1's units have slices of one length on every rank, padded with zeros at the end; with
// use_orig_params each parameter has its part of its unit's slices.
Status OptimizerReader::AddFlat() {
  MeasureSlices();
  const int64_t parts = ShardRanks();
  const Fits padded = [&](int64_t number, const Unit& unit) {
    const auto lengths = lengths_.find(number);
    if (lengths == lengths_.end()) return true;
    const int64_t each = (unit.elements + parts - 1) / parts;
    return lengths->second.size() == static_cast<size_t>(parts) &&
           std::ranges::all_of(lengths->second,
                               [&](const auto& length) { return length.second == each; });
  };
  const Fits exact = [&](int64_t number, const Unit& unit) {
    const auto lengths = lengths_.find(number);
    if (lengths == lengths_.end()) return true;
    int64_t sum = 0;
    for (const auto& [shard, length] : lengths->second) sum += length;
    return sum == unit.elements;
  };
  facts_.form = OptimizerForm::kFlatUnits;
  Result<std::map<int64_t, Unit>> found = TensorsOfNumbers(LayerUnits, padded);
  if (!found.ok()) {
    // With an adapter each trained module is a unit.
    Result<std::map<int64_t, Unit>> alone = TensorsOfNumbers(SingleUnits, padded);
    if (!alone.ok()) {
      facts_.form = OptimizerForm::kFlatParameters;
      alone = TensorsOfNumbers(SingleUnits, exact);
    }
    if (!alone.ok())
      return std::move(found).error().hint(
          "units of FSDP1 other than the layers of the model (transformer_layer_cls_to_wrap, "
          "min_num_params) are not known; --no-optimizer leaves the optimizer's state out");
    found = std::move(alone);
  }
  units_ = *std::move(found);
  for (const RankState& rank : ranks_)
    for (const auto& [number, all] : rank.by_number)
      for (const Kept& kept : all) NXDKIT_TRY(AddSliceOf(rank, number, kept));
  return OkStatus();
}

Status OptimizerReader::AddSliceOf(const RankState& rank, int64_t number, const Kept& kept) {
  NXDKIT_ASSIGN(const Unit* unit, UnitOf(number));
  if (!HasElements(kept)) {
    for (const size_t i : unit->tensors) NXDKIT_TRY(AddKept(rank, facts_.tensors[i].name, kept));
    return OkStatus();
  }
  const int64_t length = kept.stored.shape[0];
  if (!IsPacked(kept.stored) || length != lengths_.at(number).at(ShardOf(rank.rank)))
    return Corrupt("{} of number {} is a slice of {}, another one has {}", kept.name, number,
                   ShapeText(kept.stored.shape), lengths_.at(number).at(ShardOf(rank.rank)));
  int64_t begin = 0;
  for (const auto& [shard, before] : lengths_.at(number))
    if (shard < ShardOf(rank.rank)) begin += before;
  int64_t first = 0;  // of the tensor in the unit
  for (const size_t i : unit->tensors) {
    const ModelTensor& tensor = facts_.tensors[i];
    const int64_t count = *ElementCount(tensor.shape);
    const int64_t lo = std::max(first, begin);
    const int64_t hi = std::min(first + count, begin + length);
    if (lo < hi)
      NXDKIT_TRY(entries_.AddRange({rank.file, rank.rank},
                                   fmt::format("{}{}.{}", kStateKeys, tensor.name, kept.name),
                                   tensor.shape, kept.stored, {lo - begin, lo - first, hi - lo}));
    first += count;
  }
  if (!proves_padding_) return OkStatus();
  NXDKIT_ASSIGN(const bool zero,
                IsZeroFrom(kept.stored, std::clamp<int64_t>(unit->elements - begin, 0, length)));
  if (zero) return OkStatus();
  return Corrupt(
      "{} of number {} is not zero in its padding: it belongs to another unit than the parameters "
      "from {} on",
      kept.name, number, facts_.tensors[unit->tensors.front()].name);
}

// Adds the options of a group, for each of its parameters.
Status OptimizerReader::AddOptions() {
  std::set<std::string> in_group;
  if (!groups_.list()) return OkStatus();
  for (const PickleValue& group : *groups_.list()) {
    const PickleValue* params = group.Find(kParams);
    if (!params || !params->list()) return Corrupt("a group of options without \"params\"");
    std::vector<std::string> names;
    for (const PickleValue& param : *params->list()) {
      if (param.string()) names.push_back(*param.string());
      if (!param.integer() || units_.empty()) continue;
      NXDKIT_ASSIGN(const Unit* unit, UnitOf(*param.integer()));
      for (const size_t i : unit->tensors) names.push_back(facts_.tensors[i].name);
    }
    for (const std::string& name : names)
      if (!in_group.insert(name).second)
        return Corrupt("two groups of options have the parameter, or one has it twice").on(name);
    for (const auto& [option, value] : *group.dict()) {
      if (!option.string() || *option.string() == kParams) continue;
      for (const std::string& name : names)
        NXDKIT_TRY(entries_.AddObject(
            fmt::format("{}{}.{}", kGroupKeys, name, *option.string()), value,
            PickleValue::MakeTuple({{"optimizer"}, {"param_groups"}, {name}, {*option.string()}})));
    }
    facts_.groups.push_back(std::move(names));
  }
  for (const RankState& rank : ranks_)
    for (const auto& [name, all] : rank.by_name)
      if (!in_group.contains(name))
        return Corrupt("the optimizer has state of it, but no group of options has it").on(name);
  return OkStatus();
}

}  // namespace nxdkit::fsdp
