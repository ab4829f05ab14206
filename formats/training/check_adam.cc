#include "formats/training/check_adam.h"

#include "lib/base/errors.h"

namespace nxdkit::training {

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
