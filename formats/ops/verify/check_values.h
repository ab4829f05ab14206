// PRIVATE to formats/ops/verify: finds NaNs, infinities, and parameters that are all zeros.
#pragma once

#include <vector>

#include "formats/artifact/values.h"
#include "formats/ops/verify/verify.h"

namespace nxdkit::ops {

class ValueCheck {
 public:
  // `artifact` must outlive this.
  explicit ValueCheck(const BoundArtifact& artifact);

  // As CompareSink::Seen: values that another check reads need not be read again. Thread-safe.
  void Add(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
    scan_.Add(tensor, offset, bytes);
  }
  // Reads the tensors that were not added, from number `first` on.
  Status Read(const RunOptions& run, size_t first = 0);

  // One for each parameter.
  std::vector<Finding> Findings() const;

 private:
  const BoundArtifact& artifact_;
  const std::vector<OutputTensor> tensors_;
  ValueScan scan_;
};

}  // namespace nxdkit::ops
