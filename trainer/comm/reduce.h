// Sums over the ranks of a group, in rank order: ((x0 + x1) + x2) + ... for every element. Every
// rank ends with the same bits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/comm/comm.h"

namespace nxdkit::trainer {

// values[i] becomes the sum over ranks. All ranks pass the same size.
Status AllReduceSum(Comm& comm, std::span<float> values);
Status AllReduceSum(Comm& comm, std::span<double> values);

// Part r of a flat array belongs to rank r. All ranks pass the same cut; its parts are consecutive.
struct FlatCut {
  std::vector<size_t> ends;  // the end of each part, in elements
  size_t begin(int rank) const { return rank == 0 ? 0 : ends[static_cast<size_t>(rank) - 1]; }
  size_t end(int rank) const { return ends[static_cast<size_t>(rank)]; }
  size_t size(int rank) const { return end(rank) - begin(rank); }
};
// This rank's part becomes the sum over ranks, with the bits of AllReduceSum; the other parts are
// unchanged.
Status ReduceScatterSum(Comm& comm, std::span<float> values, const FlatCut& cut);
// `bytes` holds elements of `element` bytes; each part becomes that of the rank that owns it.
Status AllGatherParts(Comm& comm, std::span<std::byte> bytes, size_t element, const FlatCut& cut);

}  // namespace nxdkit::trainer
