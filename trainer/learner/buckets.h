// How the flat array of a rank is cut for its updates: into buckets, parts that a backward pass is
// through with one after the other, and each of them over the data-parallel ranks (ZeRO-1).
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/comm/reduce.h"
#include "trainer/model/param_table.h"

namespace nxdkit::trainer {

struct Bucket {
  FlatRange range;
  std::vector<FlatRange> shares;  // of each data-parallel rank; they follow one another
  FlatCut cut;                    // the same, counted from the beginning of the range
};

// `least`: elements of a bucket, at least; 0: so many that every rank's share of it is not much
// larger or smaller than another's. All ranks of a mesh have the same buckets.
std::vector<Bucket> MakeBuckets(const ParamTable& table, int ranks, int64_t least = 0);

// Of one data-parallel rank.
std::vector<FlatRange> SharesOf(const std::vector<Bucket>& buckets, int rank);

}  // namespace nxdkit::trainer
