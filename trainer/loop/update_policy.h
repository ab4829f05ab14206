// The updates of one training step: mini-batches in order, each one optimizer step over all
// data-parallel ranks.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/actor/actor.h"
#include "trainer/algo/policy_loss.h"
#include "trainer/loop/sample.h"
#include "trainer/report/metrics.h"

namespace nxdkit::trainer {

struct UpdatePolicyOptions {
  PolicyLossOptions loss;
  int64_t rows_per_update = 0;  // of each data-parallel rank
  int64_t epochs = 1;
  double lr = 0;
};

struct UpdatePolicyResult {
  int64_t updates = 0;
  int64_t skipped = 0;  // their gradient was not finite
  bool moved = false;   // one had a gradient that was finite and not zero
};

// `samples` in the order in which the ranks take them: data-parallel rank d has the d-th of equal
// consecutive shares. Adds actor/* to `metrics`: means over the micro-batches, of kl_loss
// weighted by their tokens.
Result<UpdatePolicyResult> UpdatePolicy(Actor& actor, std::span<const Sample> samples,
                                        const UpdatePolicyOptions& options, Metrics& metrics);

}  // namespace nxdkit::trainer
