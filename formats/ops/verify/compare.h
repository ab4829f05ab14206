// Proof by comparison: an artifact against itself (replicas, padding, rank tensors, tied pair), and
// two artifacts of any layouts against each other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/run.h"
#include "lib/sinks/compare_sink.h"

namespace nxdkit::ops {

// Something that is not as it must be. Fields that do not apply are empty.
struct Finding {
  std::string check;  // "replica", "padding", "rank tensor", "tied", "value", "missing", ...
  std::string file;
  std::string tensor;  // stored name
  std::string param;   // logical name
  std::optional<int64_t> rank;
  std::optional<int64_t> head;
  Shape index;        // logical, or stored for padding
  int64_t count = 0;  // differing elements of this tensor
  std::string expected;
  std::string found;
  std::string message;  // what it means, one line

  // "FILE: TENSOR: rank 3: head 5: row 17: message"
  std::string ToString() const;
};

// Replicas bit-equal, padding zero, rank tensors right, the tied pair equal.
Result<std::vector<Finding>> CheckSelf(const BoundArtifact& artifact, const RunOptions& run);

// CheckSelf for those who read each element from one place only: what differs elsewhere would be
// lost without a word. kCorrupt naming the first finding.
Status RequireSound(const BoundArtifact& artifact, const RunOptions& run);

// kCorrupt for the first finding, with how many more there are; fine when there is none.
Status FirstAsError(const std::vector<Finding>& findings,
                    const char* hint = "ckpt-verify shows all of it");

// The layout of `actual` with the parameters numbered as `expected` numbers them. Both must hold
// the same model: kFindings naming the first parameter that only one has or whose shape differs.
Result<Layout> Renumber(const BoundArtifact& expected, const BoundArtifact& actual);

// Every element that `actual` stores against `expected`, in actual's dtype (a wider expected value
// is rounded as nxd-convert would). Both must hold the same model: kFindings naming the first
// parameter that only one has or whose shape differs. `seen` is shown what `actual` stores.
Result<std::vector<Finding>> CompareArtifacts(const BoundArtifact& expected,
                                              const BoundArtifact& actual, const RunOptions& run,
                                              const CompareSink::Seen& seen = {});

}  // namespace nxdkit::ops
