// PRIVATE: the place of each parameter in the flat groups of the ranks. Formulas: FORMAT.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/zero/read_files.h"

namespace nxdkit::zero {

// Elements [first, first + count) of a flattened parameter, from `at` on in the rank's group.
struct Range {
  int rank = 0;
  int64_t at = 0;
  int64_t first = 0;
  int64_t count = 0;
};

struct Place {
  std::string name;
  Shape shape;
  size_t group = 0;  // of the flat tensors
  std::vector<Range> ranges;
};

struct Partition {
  std::vector<Place> places;
  int64_t elements = 0;  // of the parameters
  int64_t padding = 0;   // everything else in the flat groups of all ranks
  // Per group and rank: the number of elements before the padding at its end (stages 1 and 2).
  std::vector<std::vector<int64_t>> lengths;
};

// `groups`: param_shapes; `ranks`: the optimizer's files in order. kCorrupt with both numbers where
// the shapes do not add up to the ranks' elements.
Result<Partition> PartitionOf(const std::vector<std::vector<NamedShape>>& groups,
                              const std::vector<OptimizerFile>& ranks);

// The largest part of `count` elements that stage 3 gives to one of `world` ranks.
constexpr int64_t PartOf(int64_t count, int64_t world) { return (count + world - 1) / world; }
// The ranges of a parameter that begins at `at` in every rank's group.
std::vector<Range> RangesAt(int64_t at, int64_t count, int world);

}  // namespace nxdkit::zero
