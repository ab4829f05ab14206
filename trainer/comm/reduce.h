// Sums over the ranks of a group, in rank order: ((x0 + x1) + x2) + ... for every element. Every
// rank ends with the same bits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/comm/comm.h"

namespace nxdkit::trainer {

// values[i] becomes the sum over ranks. All ranks give the same size.
Status AllReduceSum(Comm& comm, std::span<float> values);
Status AllReduceSum(Comm& comm, std::span<double> values);

// Part r of a flat array belongs to rank r. All ranks give the same cut, of parts that follow one
// another.
struct FlatCut {
  std::vector<size_t> ends;  // of each part, in elements
  size_t begin(int rank) const { return rank == 0 ? 0 : ends[static_cast<size_t>(rank) - 1]; }
  size_t end(int rank) const { return ends[static_cast<size_t>(rank)]; }
  size_t size(int rank) const { return end(rank) - begin(rank); }
};
// This rank's part becomes the sum over ranks, with the bits of AllReduceSum; the others keep what
// they were.
Status ReduceScatterSum(Comm& comm, std::span<float> values, const FlatCut& cut);
// `bytes` holds elements of `element` bytes; each rank's part becomes what that rank has.
Status AllGatherParts(Comm& comm, std::span<std::byte> bytes, size_t element, const FlatCut& cut);

}  // namespace nxdkit::trainer
