#include "formats/ops/verify/check_values.h"

#include <fmt/core.h>

#include <utility>

#include "formats/artifact/canonical.h"
#include "formats/ops/verify/compare.h"
#include "lib/base/text.h"
#include "lib/plan/executor.h"
#include "lib/plan/gather.h"
#include "lib/sinks/compare_sink.h"

namespace nxdkit::ops {
namespace {

// Some of the stored tensors, each as it is.
struct Selection : CanonicalPlan {
  std::vector<uint32_t> numbers;  // of the tensors, by that in the plan
};

Selection Select(const BoundLayout& bound, const ValueScan& scan, size_t first) {
  Selection out;
  out.layout.files = bound.layout.files;
  for (uint32_t t = static_cast<uint32_t>(first); t < bound.stored.size(); ++t) {
    const StoredTensor& stored = bound.stored[t];
    if (!HasValues(stored.dtype) || scan.Saw(t)) continue;
    out.numbers.push_back(t);
    out.outputs.push_back({stored.name, stored.dtype, stored.shape});
    out.layout.tensors.push_back(bound.layout.tensors[t]);
    out.plan.tensors.push_back({{CopyWhole(stored, t)}, {}});
  }
  return out;
}

class ScanSink : public Sink {
 public:
  ScanSink(const std::vector<uint32_t>& numbers, ValueScan& scan)
      : numbers_(numbers), scan_(scan) {}
  Status Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) override {
    scan_.Add(numbers_[tensor], offset, bytes);
    return OkStatus();
  }

 private:
  const std::vector<uint32_t>& numbers_;
  ValueScan& scan_;
};

}  // namespace

ValueCheck::ValueCheck(const BoundArtifact& artifact)
    : artifact_(artifact),
      tensors_(StoredAsOutputs(artifact.bound)),
      scan_(artifact.bound.layout, tensors_) {}

Status ValueCheck::Read(const RunOptions& run, size_t first) {
  const Selection selection = Select(artifact_.bound, scan_, first);
  if (selection.numbers.empty()) return OkStatus();
  NXDKIT_ASSIGN(const ExecuteOptions options,
                MakeExecuteOptions(LessPerThread(run, artifact_.reading_bytes)));
  ScanSink sink(selection.numbers, scan_);
  return RunPlan(selection, artifact_.bound, options, run, "checking values", sink);
}

std::vector<Finding> ValueCheck::Findings() const {
  std::vector<Finding> findings;
  for (const ParamValues& values : scan_.Params()) {
    const bool finite = values.nan + values.inf == 0;
    if (finite && !MayNotBeZero(artifact_, values.param)) continue;
    const LogicalTensor& param = artifact_.params[values.param];
    const TensorLayout& tensor = artifact_.bound.layout.tensors[values.tensor];
    const LayoutFile& file = artifact_.bound.layout.files[tensor.file];
    const ElementPlace place = PlaceOf(tensor, values.element);
    const int64_t elements = *ElementCount(param.shape);
    Finding finding =
        finite ? Finding("zeros", fmt::format("all {} are zero", Counted(elements, "element")))
               : Finding("not finite", fmt::format("{}: found {} at {}", NotFiniteText(values),
                                                   values.found, ShapeText(place.logical)))
                     .differs(values.found, "a finite number");
    finding.index = finite ? Shape() : place.logical;
    finding.count = finite ? elements : static_cast<int64_t>(values.nan + values.inf);
    findings.push_back(std::move(finding)
                           .in(file.path)
                           .on(tensor.name)
                           .of(param.name)
                           .at_rank(file.tp_rank < 0 ? std::nullopt : std::optional(file.tp_rank)));
  }
  return findings;
}

}  // namespace nxdkit::ops
