// The order of rows: a new one for each epoch, and a place in it that can be saved.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

// The order of `rows` rows in an epoch. It depends on the arguments alone, not on earlier draws, so
// any epoch can be computed directly. Every order is equally likely.
std::vector<uint32_t> EpochOrder(uint32_t rows, uint64_t seed, uint64_t epoch);

// The place of a run in its data. With the same data set, a resumed run sees the same rows in the
// same order as if it had never stopped.
struct DataPosition {
  uint64_t seed = 1;
  bool shuffle = true;
  uint64_t epoch = 0;       // from 0
  uint64_t next_row = 0;    // rows of the epoch's order already given out
  uint64_t rows = 0;        // of the data set
  std::string fingerprint;  // Dataset::fingerprint()

  bool operator==(const DataPosition&) const = default;
};

// As JSON, for a checkpoint; and back, where the text is trusted no more than any file: kCorrupt
// with the key for an impossible value.
std::string PositionToJson(const DataPosition& position);
Result<DataPosition> PositionFromJson(std::string_view json);

// Gives out batches of rows for training, without end. A batch never spans two epochs: rows at the
// end of an epoch that do not fill a batch are left out of it. Not thread-safe.
class BatchSampler {
 public:
  // Starts at `position`, which is {.seed, .shuffle, .rows, .fingerprint} for a new run. kUsage
  // when the data set does not fill one batch, or `batch_rows` is not positive.
  static Result<BatchSampler> Make(const DataPosition& position, int64_t batch_rows);

  // Starts at a saved position, compared with the present data set: kFindings when that is another
  // one, or the seed or shuffling has changed; with the old and new values.
  static Result<BatchSampler> Resume(const DataPosition& saved, const DataPosition& today,
                                     int64_t batch_rows);

  // Indices into the data set.
  std::vector<uint32_t> Next();

  // The position before the next batch.
  const DataPosition& position() const { return position_; }

 private:
  BatchSampler(DataPosition position, uint64_t batch_rows);
  void StartEpoch();

  DataPosition position_;
  uint64_t batch_rows_;
  std::vector<uint32_t> order_;  // of the epoch
};

}  // namespace nxdkit::trainer
