// The layout that all artifacts of one model share: every logical parameter whole, under its own
// name, as it is stored.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/run.h"
#include "lib/plan/gather.h"
#include "lib/tensor/output.h"

namespace nxdkit::artifact {

// One tensor per parameter, in the order of source.params; all in file 0.
std::vector<TensorLayout> WholeTensors(const BoundArtifact& source);

// Of each parameter: the dtype of its primary places; F32 when it has no elements. `wanted` takes
// the place of floating ones of the model, and `downcast` lowers these: what an optimizer keeps is
// not one of them. kUnsupported for a parameter stored partly in one and
// partly in another, unless `wanted` says which.
Result<std::vector<Dtype>> ParamDtypes(const BoundArtifact& source, std::optional<Dtype> wanted,
                                       bool downcast = false);

struct CanonicalPlan {
  Layout layout;  // one file without a name
  std::vector<OutputTensor> outputs;
  Plan plan;
};

// tensors[i], outputs[i] and plan.tensors[i] belong to source.params[i].
Result<CanonicalPlan> PlanCanonical(const BoundArtifact& source);

// Runs such a plan, of whichever tensors, into a sink, as the phase `phase`.
Status RunPlan(const CanonicalPlan& plan, const BoundLayout& source, const ExecuteOptions& options,
               const RunOptions& run, const std::string& phase, Sink& sink);

// Random access to the parameters. Thread-safe, but for the gatherers: one per thread.
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

}  // namespace nxdkit::artifact
