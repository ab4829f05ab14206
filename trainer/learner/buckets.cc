#include "trainer/learner/buckets.h"

#include "trainer/algo/optimizer.h"

namespace nxdkit::trainer {
namespace {

// The optimizer cuts in pieces of 2^16 elements, or of one parameter; of 32 a rank's share is off
// by a sixty-fourth at most.
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

}  // namespace nxdkit::trainer
