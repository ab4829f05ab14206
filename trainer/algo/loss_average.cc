#include "trainer/algo/loss_average.h"

#include <fmt/core.h>

#include "trainer/algo/names.h"

namespace nxdkit::trainer {
namespace {

constexpr Named<LossAverage> kAverageNames[] = {
    {"token", LossAverage::kToken},
    {"seq", LossAverage::kSequence},
    {"seq_mean", LossAverage::kSequenceMean},
};

}  // namespace

Result<LossAverage> ParseLossAverage(std::string_view name) {
  return FindNamed(kAverageNames, "worker.actor.loss_avg_mode", name);
}

Status CheckMicroBatch(const MiniBatch& mini_batch, int64_t rows, int64_t tokens) {
  if (rows <= mini_batch.rows && tokens <= mini_batch.tokens) return OkStatus();
  return Error(Errc::kInternal,
               fmt::format("a micro-batch of {} rows and {} tokens in a mini-batch of {} rows and "
                           "{} tokens",
                           rows, tokens, mini_batch.rows, mini_batch.tokens));
}

LossWeights::LossWeights(LossAverage average, const MiniBatch& mini_batch, int64_t rows,
                         int64_t tokens)
    : average_(average),
      mini_tokens_(static_cast<double>(mini_batch.tokens)),
      mini_rows_(static_cast<double>(mini_batch.rows)),
      rows_(static_cast<double>(rows)),
      tokens_(static_cast<double>(tokens)) {}

double LossWeights::gradient(int64_t row_tokens) const {
  switch (average_) {
    case LossAverage::kToken:
      return 1 / mini_tokens_;
    case LossAverage::kSequence:
      return average(row_tokens) * (tokens_ / mini_tokens_);
    case LossAverage::kSequenceMean:
      break;
  }
  return 1 / (static_cast<double>(row_tokens) * mini_rows_);
}

double LossWeights::average(int64_t row_tokens) const {
  if (average_ == LossAverage::kToken) return 1 / tokens_;
  return 1 / (static_cast<double>(row_tokens) * rows_);
}

}  // namespace nxdkit::trainer
