// Which rows come next: a new order for each epoch, and a place in it that can be saved.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

// The order of `rows` rows in an epoch. Depends on the arguments alone, not on what was drawn
// before: any epoch can be had at once. Every order is equally likely.
std::vector<uint32_t> EpochOrder(uint32_t rows, uint64_t seed, uint64_t epoch);

// Where a run is in its data. With the same data set, the rest of the run sees the same rows in the
// same order as if it had never stopped.
struct DataPosition {
  uint64_t seed = 1;
  bool shuffle = true;
  uint64_t epoch = 0;       // from 0
  uint64_t next_row = 0;    // in the order of the epoch: how many rows of it were given out
  uint64_t rows = 0;        // of the data set
  std::string fingerprint;  // Dataset::fingerprint()

  bool operator==(const DataPosition&) const = default;
};

// As JSON, for a checkpoint; and back, where the text is trusted no more than any file: kCorrupt
// with the key for what cannot be.
std::string PositionToJson(const DataPosition& position);
Result<DataPosition> PositionFromJson(std::string_view json);

// Gives out batches of rows for training, for ever. A batch never spans two epochs: the rows at the
// end of an epoch that make no whole batch are left out of it. Not thread-safe.
class BatchSampler {
 public:
  // At `position`, which is {.seed, .shuffle, .rows, .fingerprint} for a new run. kUsage when no
  // whole batch is in the data set, or `batch_rows` is not positive.
  static Result<BatchSampler> Make(const DataPosition& position, int64_t batch_rows);

  // The same for a saved position, against the data set of today: kFindings when it is another one,
  // or the seed or shuffling has changed; with what was and what is.
  static Result<BatchSampler> Resume(const DataPosition& saved, const DataPosition& today,
                                     int64_t batch_rows);

  // Indices into the data set.
  std::vector<uint32_t> Next();

  // Before the next batch.
  const DataPosition& position() const { return position_; }

 private:
  BatchSampler(DataPosition position, uint64_t batch_rows);
  void StartEpoch();

  DataPosition position_;
  uint64_t batch_rows_;
  std::vector<uint32_t> order_;  // of the epoch
};

}  // namespace nxdkit::trainer
