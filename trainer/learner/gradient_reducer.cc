#include "trainer/learner/gradient_reducer.h"

#include <utility>

#include "trainer/algo/optimizer.h"

namespace nxdkit::trainer {
namespace {

// The optimizer cuts between pieces of 2^16 elements or of one parameter; with 32 pieces, a rank's
// share is off by a sixty-fourth at most.
constexpr int64_t kLeastOfRank = int64_t{32} << 16;

}  // namespace

std::vector<Bucket> MakeBuckets(const ParamTable& table, int ranks, int64_t least) {
  std::vector<Bucket> buckets;
  for (const FlatRange& range : CutByLayers(table, least > 0 ? least : kLeastOfRank * ranks)) {
    Bucket bucket{range, CutForOptimizer(table, range, ranks), {}};
    for (const FlatRange& share : bucket.shares)
      bucket.cut.ends.push_back(static_cast<size_t>(share.end - range.begin));
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

std::vector<FlatRange> SharesOf(const std::vector<Bucket>& buckets, int rank) {
  std::vector<FlatRange> shares;
  for (const Bucket& bucket : buckets) shares.push_back(bucket.shares[static_cast<size_t>(rank)]);
  return shares;
}

GradientReducer::GradientReducer(Comm& dp, std::span<float> gradients,
                                 const std::vector<Bucket>& buckets, bool background)
    : dp_(dp), gradients_(gradients), buckets_(buckets) {
  if (background) thread_ = std::jthread([this] { Work(); });
}

GradientReducer::~GradientReducer() {
  const std::scoped_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void GradientReducer::FinalFrom(int64_t offset) {
  const std::scoped_lock lock(mutex_);
  while (final_ < buckets_.size() && buckets_[buckets_.size() - 1 - final_].range.begin >= offset)
    ++final_;
  changed_.notify_all();
}

Status GradientReducer::Finish() {
  FinalFrom(0);
  std::unique_lock lock(mutex_);
  if (thread_.joinable()) {
    changed_.wait(lock, [&] { return reduced_ == buckets_.size() || !status_.ok(); });
    NXDKIT_TRY(std::move(status_));
  } else {
    for (; reduced_ < final_; ++reduced_)
      NXDKIT_TRY(Reduce(buckets_[buckets_.size() - 1 - reduced_]));
  }
  final_ = reduced_ = 0;
  return OkStatus();
}

Status GradientReducer::Reduce(const Bucket& bucket) {
  return ReduceScatterSum(dp_,
                          gradients_.subspan(static_cast<size_t>(bucket.range.begin),
                                             static_cast<size_t>(bucket.range.size())),
                          bucket.cut);
}

void GradientReducer::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || reduced_ < final_; });
    if (stopping_) return;
    const Bucket& bucket = buckets_[buckets_.size() - 1 - reduced_];
    lock.unlock();
    Status reduced = Reduce(bucket);
    lock.lock();
    changed_.notify_all();
    if (!reduced.ok()) {
      status_ = std::move(reduced);
      return;  // the run is over
    }
    ++reduced_;
  }
}

}  // namespace nxdkit::trainer
