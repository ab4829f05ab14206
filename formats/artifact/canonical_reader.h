// Random access to the parameters of an artifact, in the layout that all artifacts of a model
// share.
#pragma once

#include <span>

#include "formats/artifact/artifact.h"
#include "formats/artifact/canonical.h"
#include "lib/plan/gather.h"

namespace nxdkit::ops {

// Thread-safe, but for the gatherers: one per thread.
class CanonicalReader {
 public:
  // `bound` and `plan` must outlive the reader; the plan's source is `bound`.
  CanonicalReader(const BoundLayout& bound, const CanonicalPlan& plan)
      : bound_(bound), plan_(plan) {}

  // The bytes of parameter `param` from `offset` on, packed, in the plan's dtype. Whole elements.
  Status Read(size_t param, uint64_t offset, std::span<std::byte> to, Gatherer& gatherer) const;

 private:
  const BoundLayout& bound_;
  const CanonicalPlan& plan_;
};

}  // namespace nxdkit::ops
