// Verification by comparison: an artifact with itself (replicas, padding, rank tensors, tied pair),
// and two artifacts of any layouts with each other.
#pragma once

#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/finding.h"
#include "formats/artifact/run.h"
#include "lib/sinks/compare_sink.h"

namespace nxdkit::ops {

// The stored tensors as outputs: each as it is.
std::vector<OutputTensor> StoredAsOutputs(const BoundLayout& bound);

// Replicas are bit-equal, padding is zero, rank tensors are right, the tied pair is equal.
Result<std::vector<Finding>> CheckSelf(const BoundArtifact& artifact, const RunOptions& run);

// The weights in the first `model_files` files of a training tag that differ from their master
// weights, rounded to nearest even: one finding per tensor. Empty if there are no master weights.
Result<std::vector<Finding>> CompareMasters(const BoundArtifact& training, size_t model_files,
                                            const RunOptions& run);

// CheckSelf for operations that read each element from one place only: differences elsewhere would
// be lost silently. kCorrupt naming the first finding.
Status RequireSound(const BoundArtifact& artifact, const RunOptions& run);

// kCorrupt for the first finding, with the number of the others; success if there is none.
Status FirstAsError(const std::vector<Finding>& findings,
                    const char* hint = "ckpt-verify shows all of it");

// The layout of `actual` with the parameters numbered as in `expected`. Both must hold the same
// model: kFindings naming the first parameter that only one has or whose shape differs.
Result<Layout> Renumber(const BoundArtifact& expected, const BoundArtifact& actual);

// Compares every element that `actual` stores with `expected`, in actual's dtype (a wider expected
// value is rounded as nxd-convert would). Both must hold the same model: kFindings naming the first
// parameter that only one has or whose shape differs. `seen` is called with the stored values of
// `actual`.
Result<std::vector<Finding>> CompareArtifacts(const BoundArtifact& expected,
                                              const BoundArtifact& actual, const RunOptions& run,
                                              const CompareSink::Seen& seen = {});

}  // namespace nxdkit::ops
