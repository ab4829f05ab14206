// The updates of the policy and its critic in one training step: mini-batches in order, each one
// optimizer step over all data-parallel ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "trainer/algo/policy_loss.h"
#include "trainer/algo/value_loss.h"
#include "trainer/learner/mesh_model.h"
#include "trainer/loop/sample.h"
#include "trainer/report/metrics.h"

namespace nxdkit::trainer {

struct MiniBatchOptions {
  int64_t rows_per_update = 0;  // on each data-parallel rank
  int64_t epochs = 1;
  double lr = 0;
  std::function<void(int64_t done, int64_t rows)> progress = nullptr;  // over all epochs
};

struct UpdateSummary {
  int64_t updates = 0;
  int64_t skipped = 0;  // their gradient was not finite
  bool moved = false;   // at least one had a finite gradient other than zero
};

// `samples` in the order in which the ranks take them: data-parallel rank d has the d-th of equal
// consecutive shares. Adds actor/*: means over the micro-batches, kl_loss weighted by their tokens.
Result<UpdateSummary> UpdatePolicy(MeshModel& actor, std::span<const Sample> samples,
                                   const PolicyLossOptions& loss, const MiniBatchOptions& options,
                                   Metrics& metrics);

// Likewise critic/*. The samples have values and returns.
Result<UpdateSummary> UpdateCritic(MeshModel& critic, std::span<const Sample> samples,
                                   const ValueLossOptions& loss, const MiniBatchOptions& options,
                                   Metrics& metrics);

}  // namespace nxdkit::trainer
