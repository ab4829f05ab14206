#include "formats/artifact/optimizer/optimizer_entries.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/torch/pickle_writer.h"

namespace nxdkit::ops {
namespace {

using Kind = OptimizerEntry::Kind;

Result<OptimizerEntry> EntryOf(const nxd::StateEntry& entry) {
  OptimizerEntry made;
  made.name = entry.name;
  if (entry.tensor) {
    made.kind = entry.tensor->shape.empty() ? Kind::kScalar : Kind::kLike;
    made.dtype = entry.tensor->dtype;
    return made;
  }
  Result<std::string> text = torch::WritePickle(entry.value, {});
  if (!text.ok())
    return Error(Errc::kUnsupported, fmt::format("the value of {} cannot be carried over: {}",
                                                 entry.name, text.error().message()));
  made.kind = Kind::kValue;
  made.value = entry.value;
  made.value_text = *std::move(text);
  return made;
}

std::string Names(const OptimizerEntries& entries) {
  if (!entries) return "nothing";
  std::string names;
  for (const OptimizerEntry& entry : *entries) names += (names.empty() ? "" : ", ") + entry.name;
  return "[" + names + "]";
}

bool SameKinds(const OptimizerEntries& a, const OptimizerEntries& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return std::ranges::equal(*a, *b, [](const OptimizerEntry& x, const OptimizerEntry& y) {
    return x.name == y.name && x.kind == y.kind;
  });
}

}  // namespace

Result<OptimizerEntries> EntriesOf(const nxd::ParamState& state) {
  if (!state.entries) return OptimizerEntries();
  std::vector<OptimizerEntry> entries;
  for (const nxd::StateEntry& entry : *state.entries) {
    NXDKIT_ASSIGN(OptimizerEntry made, EntryOf(entry));
    entries.push_back(std::move(made));
  }
  return OptimizerEntries(std::move(entries));
}

Status RequireSame(const OptimizerEntries& first, const OptimizerEntries& here) {
  if (!SameKinds(first, here))
    return Error(Errc::kCorrupt, fmt::format("the optimizer keeps {} here, and {} on other ranks",
                                             Names(here), Names(first)));
  for (size_t e = 0; here && e < here->size(); ++e)
    if ((*here)[e].value_text != (*first)[e].value_text)
      return Error(Errc::kCorrupt,
                   fmt::format("{} has another value than on other ranks", (*here)[e].name));
  return OkStatus();
}

std::vector<std::string> BoundOptimizer::EntryNames() const {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const auto& of_param : entries)
    if (of_param)
      for (const OptimizerEntry& entry : *of_param) add(entry.name);
  for (const auto& master : masters)
    if (master) add(master->name);
  return names;
}

const OptimizerEntry* BoundOptimizer::Find(uint32_t param, std::string_view name) const {
  if (name == nxd::kMasterWeights) return masters[param] ? &*masters[param] : nullptr;
  if (!entries[param]) return nullptr;
  for (const OptimizerEntry& entry : *entries[param])
    if (entry.name == name) return &entry;
  return nullptr;
}

}  // namespace nxdkit::ops
