// Sums the gradients of one rank over its data-parallel group, bucket by bucket from the last one
// on, each rank its share: when all are there, or in the background, while the backward pass makes
// those before. The same bits either way: of every element the sum is in rank order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "trainer/comm/reduce.h"
#include "trainer/model/param_table.h"

namespace nxdkit::trainer {

// A part of a rank's flat array that a backward pass is through with at once, cut over the
// data-parallel ranks (ZeRO-1).
struct Bucket {
  FlatRange range;
  std::vector<FlatRange> shares;  // of each data-parallel rank; they follow one another
  FlatCut cut;                    // the same, counted from the beginning of the range
};

// `least`: elements of a bucket, at least; 0: so many that every rank's share of it is not much
// larger or smaller than another's. All ranks of a mesh have the same buckets.
std::vector<Bucket> MakeBuckets(const ParamTable& table, int ranks, int64_t least = 0);

// The shares of one data-parallel rank.
std::vector<FlatRange> SharesOf(const std::vector<Bucket>& buckets, int rank);

class GradientReducer {
 public:
  // `dp`, a communicator of its own, `gradients`, the whole flat array, and `buckets` must outlive
  // it. All ranks of the group are in the background, or none is.
  GradientReducer(Comm& dp, std::span<float> gradients, const std::vector<Bucket>& buckets,
                  bool background);
  // After a failed Finish, or a failure elsewhere, not before the world knows of it.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Once per update, any number of times before Finish, with ever smaller offsets: the gradients
  // from there on are final.
  void FinalFrom(int64_t offset);
  // All are final. Returns when this rank's shares are sums; the rest stays what it was.
  Status Finish();

 private:
  Status Reduce(const Bucket& bucket);
  void Work();

  Comm& dp_;
  const std::span<float> gradients_;
  const std::vector<Bucket>& buckets_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t final_ = 0, reduced_ = 0;  // buckets, counted from the last one
  Status status_ = OkStatus();
  bool stopping_ = false;
  std::jthread thread_;  // not there when nothing is done in the background
};

}  // namespace nxdkit::trainer
