#include "formats/artifact/training_state.h"

#include <algorithm>

namespace nxdkit::artifact {

Dtype NamedDtypes::Of(const std::string& name) const {
  const auto other = others.find(name);
  return other == others.end() ? most : other->second;
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

}  // namespace nxdkit::artifact
