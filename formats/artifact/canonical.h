// The layout that all artifacts of one model share: every logical parameter whole, under its own
// name, in its stored dtype.
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

// The dtype of each parameter's primary places; F32 if it has no elements. `wanted` replaces
// floating ones of the model, and `downcast` lowers these: an optimizer's entries are not changed.
// kUnsupported for a parameter stored in several dtypes, unless `wanted` decides.
Result<std::vector<Dtype>> ParamDtypes(const BoundArtifact& source, std::optional<Dtype> wanted,
                                       bool downcast = false);

struct CanonicalPlan {
  Layout layout;  // one file without a name
  std::vector<OutputTensor> outputs;
  Plan plan;
};

// tensors[i], outputs[i] and plan.tensors[i] belong to source.params[i].
Result<CanonicalPlan> PlanCanonical(const BoundArtifact& source);

// Runs such a plan, of any tensors, into a sink, as the phase `phase`.
Status RunPlan(const CanonicalPlan& plan, const BoundLayout& source, const ExecuteOptions& options,
               const RunOptions& run, const std::string& phase, Sink& sink);

// Random access to the parameters. Thread-safe, except for the gatherers: one per thread.
class CanonicalReader {
 public:
  // `bound` and `plan` must outlive the reader; the plan's source is `bound`.
  CanonicalReader(const BoundLayout& bound, const CanonicalPlan& plan)
      : bound_(bound), plan_(plan) {}

  // Reads the bytes of parameter `param` from `offset` on, packed, in the plan's dtype. Whole
  // elements.
  Status Read(size_t param, uint64_t offset, std::span<std::byte> to, Gatherer& gatherer) const;

 private:
  const BoundLayout& bound_;
  const CanonicalPlan& plan_;
};

}  // namespace nxdkit::artifact
