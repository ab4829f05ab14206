// Counts what a narrower dtype cannot hold: elements that are infinite in the output.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "lib/plan/executor.h"

namespace nxdkit::ops {

// Hands everything on to `next`, and looks at the chunks of those tensors that are converted from
// another dtype.
class InfinityCounter : public Sink {
 public:
  InfinityCounter(Sink& next, const Plan& plan, const BoundLayout& source,
                  const std::vector<OutputTensor>& outputs);

  Status Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) override;
  Status TaskDone(uint64_t task) override { return next_.TaskDone(task); }
  bool IsDone(uint64_t task) const override { return next_.IsDone(task); }

  // One line for each of the first tensors with infinite elements, and one for the rest.
  std::vector<std::string> Warnings() const;

 private:
  Sink& next_;
  const std::vector<OutputTensor>& outputs_;
  std::vector<bool> converted_;
  mutable std::mutex mutex_;
  std::vector<uint64_t> counts_;
};

}  // namespace nxdkit::ops
