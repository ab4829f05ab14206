// The updates of one training step, of the policy and of its critic.
#pragma once

#include <span>

#include "trainer/algo/policy_loss.h"
#include "trainer/algo/value_loss.h"
#include "trainer/learner/actor.h"
#include "trainer/learner/critic.h"
#include "trainer/loop/mini_batches.h"

namespace nxdkit::trainer {

// Adds actor/*: means over the micro-batches, kl_loss weighed by their tokens.
Result<UpdateSummary> UpdatePolicy(Actor& actor, std::span<const Sample> samples,
                                   const PolicyLossOptions& loss, const MiniBatchOptions& options,
                                   Metrics& metrics);

// Adds critic/*: means over the micro-batches. The samples have values and returns.
Result<UpdateSummary> UpdateCritic(Critic& critic, std::span<const Sample> samples,
                                   const ValueLossOptions& loss, const MiniBatchOptions& options,
                                   Metrics& metrics);

}  // namespace nxdkit::trainer
