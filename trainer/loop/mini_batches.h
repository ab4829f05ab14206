// The updates that one training step makes of a model: mini-batches in order, each one optimizer
// step over all data-parallel ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "trainer/algo/loss_average.h"
#include "trainer/learner/mesh_model.h"
#include "trainer/loop/parts.h"
#include "trainer/loop/sample.h"
#include "trainer/report/metrics.h"

namespace nxdkit::trainer {

struct MiniBatchOptions {
  int64_t rows_per_update = 0;  // of each data-parallel rank
  int64_t epochs = 1;
  double lr = 0;
  ProgressHook progress = nullptr;  // of rows, in all epochs
};

struct UpdateSummary {
  int64_t updates = 0;
  int64_t skipped = 0;  // their gradient was not finite
  bool moved = false;   // one had a gradient that was finite and not zero
};

// One sample of a micro-batch, with the model's outputs for its tokens and where their gradient
// goes.
struct SampleOutputs {
  const Sample& sample;
  std::span<const float> outputs;
  std::span<float> gradient;
};

// Sets the gradients of one micro-batch of a mini-batch and adds to `metrics` what it finds. Called
// from the threads of several ranks at once.
using SampleLoss = std::function<Status(const MiniBatch& mini_batch,
                                        std::span<const SampleOutputs> rows, Metrics& metrics)>;

// `samples` in the order in which the ranks take them: data-parallel rank d has the d-th of equal
// consecutive shares. Adds what the losses add to `metrics`, micro-batch by micro-batch, and
// <group>/grad_norm, lr and skipped_updates.
Result<UpdateSummary> UpdateInMiniBatches(MeshModel& model, const std::string& group,
                                          std::span<const Sample> samples,
                                          const MiniBatchOptions& options, const SampleLoss& loss,
                                          Metrics& metrics);

}  // namespace nxdkit::trainer
