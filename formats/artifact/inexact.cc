#include "formats/artifact/inexact.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <utility>

#include "formats/artifact/canonical.h"

namespace nxdkit::artifact {
namespace {

class Counter : public Sink {
 public:
  explicit Counter(size_t tensors) : counts_(tensors) {}

  Status Take(uint32_t tensor, uint64_t /*offset*/, std::span<const std::byte> bytes) override {
    uint64_t count = 0;
    for (size_t at = 0; at + sizeof(double) <= bytes.size(); at += sizeof(double)) {
      double value;
      std::memcpy(&value, bytes.data() + at, sizeof value);
      count += static_cast<double>(static_cast<float>(value)) != value && !std::isnan(value);
    }
    const std::lock_guard lock(mutex_);
    counts_[tensor] += count;
    return OkStatus();
  }

  const std::vector<uint64_t>& counts() const { return counts_; }

 private:
  std::mutex mutex_;
  std::vector<uint64_t> counts_;
};

// The tensors that are narrowed, as F64.
CanonicalPlan Narrowed(const Plan& plan, const BoundLayout& source, const Layout& layout,
                       const std::vector<OutputTensor>& outputs) {
  CanonicalPlan narrowed;
  narrowed.layout.files = layout.files;
  for (size_t t = 0; t < outputs.size(); ++t) {
    const auto is_wide = [&](const CopyOp& op) {
      return source.stored[op.source].dtype == Dtype::kF64;
    };
    if (outputs[t].dtype != Dtype::kF32 || std::ranges::none_of(plan.tensors[t].copies, is_wide))
      continue;
    narrowed.plan.tensors.push_back(plan.tensors[t]);
    narrowed.layout.tensors.push_back(layout.tensors[t]);
    // A chunk may have another shape here than in the file.
    narrowed.outputs.push_back({outputs[t].name, Dtype::kF64, outputs[t].shape});
  }
  return narrowed;
}

}  // namespace

Result<std::vector<std::string>> InexactElements(const Plan& plan, const BoundLayout& source,
                                                 const Layout& layout,
                                                 const std::vector<OutputTensor>& outputs,
                                                 const RunOptions& run) {
  const CanonicalPlan narrowed = Narrowed(plan, source, layout, outputs);
  if (narrowed.outputs.empty()) return std::vector<std::string>();
  NXDKIT_ASSIGN(const ExecuteOptions options, MakeExecuteOptions(run));
  Counter counter(narrowed.outputs.size());
  NXDKIT_TRY(RunPlan(narrowed, source, options, run, "counting what F32 cannot hold", counter));
  uint64_t elements = 0;
  size_t tensors = 0;
  std::string first;
  for (size_t t = 0; t < narrowed.outputs.size(); ++t) {
    if (counter.counts()[t] == 0) continue;
    elements += counter.counts()[t];
    if (tensors++ == 0) first = narrowed.outputs[t].name;
  }
  if (tensors == 0) return std::vector<std::string>();
  return std::vector{fmt::format(
      "{} elements of {} tensors are F64 and become F32 with another value, the first in {}",
      elements, tensors, first)};
}

}  // namespace nxdkit::artifact
