#include "formats/training/check_adam.h"

#include <algorithm>
#include <set>
#include <string>

#include "formats/nxd/optimizer_set.h"
#include "lib/base/errors.h"

namespace nxdkit::training {

Status CheckEven(const BoundArtifact& checkpoint) {
  const BoundOptimizer& optimizer = *checkpoint.optimizer;
  std::set<std::string> names;
  bool any_master = false;
  for (uint32_t i = 0; i < optimizer.entries.size(); ++i) {
    any_master |= optimizer.masters[i].has_value();
    if (!optimizer.entries[i]) continue;
    for (const OptimizerEntry& entry : *optimizer.entries[i]) names.insert(entry.name);
  }
  if (any_master) names.insert(nxd::kMasterWeights);
  for (uint32_t i = 0; i < optimizer.entries.size(); ++i) {
    if (!optimizer.entries[i]) continue;
    for (const std::string& name : names)
      if (!optimizer.Find(i, name))
        return Corrupt("the optimizer has no {} for the parameter, but for others", name)
            .in(checkpoint.artifact.path)
            .on(checkpoint.params[i].name)
            .hint("a part of the state was lost");
  }
  return OkStatus();
}

Status CheckAdam(const BoundArtifact& source) {
  const BoundOptimizer& optimizer = *source.optimizer;
  for (uint32_t i = 0; i < optimizer.entries.size(); ++i) {
    if (!optimizer.entries[i]) continue;
    for (const std::string_view needed : kAdamEntries)
      if (!optimizer.Find(i, needed))
        return Unsupported(
                   "the optimizer keeps no {}: only the state of Adam and AdamW can be carried "
                   "over",
                   needed)
            .in(source.artifact.path)
            .on(source.params[i].name)
            .hint("--no-optimizer leaves the optimizer's state out");
  }
  return OkStatus();
}

}  // namespace nxdkit::training
