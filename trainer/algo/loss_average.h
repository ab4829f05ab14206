// The weights with which the losses of all tokens of a mini-batch are averaged into one number, for
// policy, KL and value losses alike.
//
// A mini-batch is one optimizer update; micro-batches are the parts of it that fit into memory, on
// any rank. The gradients of all micro-batches of all data-parallel ranks are summed (not
// averaged), and that sum is the gradient of the mini-batch.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::trainer {

// token:    every token of the mini-batch weighs the same: 1 / T.
// seq:      as the reference has it: 1 / (n_i b) * (T_b / T) for row i of n_i tokens, in a
//           micro-batch of b rows and T_b tokens. Depends on how micro-batches are cut; with one
//           row per micro-batch it is `token`.
// seq_mean: the mean over sequences of the mean over tokens: 1 / (n_i N) with N rows in the
//           mini-batch. What `seq` looks like, and what our configurations may ask for instead.
enum class LossAverage { kToken, kSequence, kSequenceMean };
Result<LossAverage> ParseLossAverage(std::string_view name);

// Totals of the whole mini-batch, over all data-parallel ranks.
struct MiniBatch {
  int64_t tokens = 0;  // T
  int64_t rows = 0;    // N
};

// kInternal when a micro-batch of `rows` rows and `tokens` tokens is larger than its mini-batch.
Status CheckMicroBatch(const MiniBatch& mini_batch, int64_t rows, int64_t tokens);

// The weights of one micro-batch of `rows` rows and `tokens` tokens.
class LossWeights {
 public:
  LossWeights(LossAverage average, const MiniBatch& mini_batch, int64_t rows, int64_t tokens);

  // The weight of a token in a row of `row_tokens`, in the gradient of the mini-batch.
  double gradient(int64_t row_tokens) const;
  // Its weight in the average over this micro-batch alone, which the metrics show.
  double average(int64_t row_tokens) const;

 private:
  LossAverage average_;
  double mini_tokens_, mini_rows_, rows_, tokens_;
};

}  // namespace nxdkit::trainer
