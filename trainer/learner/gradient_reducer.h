// Sums the gradients of one rank over its data-parallel group, bucket by bucket from the last one
// on, each rank its share: after the backward pass, or in the background while the backward pass
// computes earlier ones. The bits are the same either way: every sum is in rank order.
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

// A part of a rank's flat array that a backward pass completes at once, cut over the data-parallel
// ranks (ZeRO-1).
struct Bucket {
  FlatRange range;
  std::vector<FlatRange> shares;  // for each data-parallel rank; they are consecutive
  FlatCut cut;                    // the same, counted from the beginning of the range
};

// `least`: the least number of elements in a bucket; 0: enough that all ranks' shares of it have
// nearly the same size. All ranks of a mesh have the same buckets.
std::vector<Bucket> MakeBuckets(const ParamTable& table, int ranks, int64_t least = 0);

// The shares of one data-parallel rank.
std::vector<FlatRange> SharesOf(const std::vector<Bucket>& buckets, int rank);

class GradientReducer {
 public:
  // `dp`, a communicator used for nothing else, `gradients`, the whole flat array, and `buckets`
  // must outlive it. Either all ranks of the group reduce in the background, or none.
  GradientReducer(Comm& dp, std::span<float> gradients, const std::vector<Bucket>& buckets,
                  bool background);
  // After a failed Finish or a failure elsewhere, destroy it only when the world knows of the
  // failure.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Called once per update and any number of times before Finish, with decreasing offsets: the
  // gradients from there on are final.
  void FinalFrom(int64_t offset);
  // All gradients are final. Returns when this rank's shares are sums; the rest is unchanged.
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
  std::jthread thread_;  // absent when nothing is reduced in the background
};

}  // namespace nxdkit::trainer
