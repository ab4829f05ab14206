// Proof by comparison: an artifact against itself (replicas, padding, rank tensors, tied pair), and
// two artifacts of any layouts against each other.
#pragma once

#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/finding.h"
#include "formats/artifact/run.h"
#include "lib/sinks/compare_sink.h"

namespace nxdkit::ops {

// The stored tensors as outputs: each as it is.
std::vector<OutputTensor> StoredAsOutputs(const BoundLayout& bound);

// Replicas bit-equal, padding zero, rank tensors right, the tied pair equal.
Result<std::vector<Finding>> CheckSelf(const BoundArtifact& artifact, const RunOptions& run);

// The weights in the first `model_files` files of a training tag that are not their master weights,
// rounded to nearest even: one finding per tensor. Empty where there are no master weights.
Result<std::vector<Finding>> CompareMasters(const BoundArtifact& training, size_t model_files,
                                            const RunOptions& run);

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
