// Random parameters and random layouts of them: cut into pieces, transposed, repeated, padded.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/lib/plan/plan_fixture.h"

namespace nxdkit::testing_util {

using Random = std::mt19937;

inline int64_t Below(Random& random, int64_t limit) {
  return static_cast<int64_t>(random() % static_cast<uint32_t>(limit));
}

inline std::vector<LogicalTensor> RandomParams(Random& random) {
  std::vector<LogicalTensor> params;
  for (int64_t i = 1 + Below(random, 4); i > 0; --i) {
    Shape shape;
    for (int64_t d = Below(random, 4); d > 0; --d) shape.push_back(1 + Below(random, 9));
    params.push_back({"p" + std::to_string(params.size()), shape, 0, 0});
  }
  return params;
}

// Cuts a box into up to 2^depth disjoint boxes that cover it.
inline void Cut(Random& random, const Box& box, int depth, std::vector<Box>& out) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < box.extent.size(); ++d)
    if (box.extent[d] > 1) dims.push_back(d);
  if (depth == 0 || dims.empty() || Below(random, 4) == 0) {
    out.push_back(box);
    return;
  }
  const size_t d = dims[random() % dims.size()];
  const int64_t at = 1 + Below(random, box.extent[d] - 1);
  Box low = box;
  low.extent[d] = at;
  Box high = box;
  high.lo[d] += at;
  high.extent[d] -= at;
  Cut(random, low, depth - 1, out);
  Cut(random, high, depth - 1, out);
}

// A tensor that stores `region` of a parameter: in pieces, with exchanged dimensions, followed by
// zeros.
inline TensorLayout RandomTensor(Random& random, std::string name, uint32_t param,
                                 const Box& region) {
  const size_t rank = region.lo.size();
  TensorLayout tensor{std::move(name), 0, Shape(rank), std::nullopt, {}, {}};
  std::vector<uint8_t> axes(rank);
  for (size_t d = 0; d < rank; ++d) axes[d] = static_cast<uint8_t>(d);
  std::shuffle(axes.begin(), axes.end(), random);
  for (size_t d = 0; d < rank; ++d) tensor.shape[axes[d]] = region.extent[d];
  std::vector<Box> parts;
  Cut(random, region, 2, parts);
  for (const Box& part : parts) {
    Piece piece{param, part, Shape(rank, 0), axes};
    for (size_t d = 0; d < rank; ++d) piece.stored_lo[axes[d]] = part.lo[d] - region.lo[d];
    tensor.pieces.push_back(std::move(piece));
  }
  if (rank == 0 || Below(random, 3) != 0) return tensor;
  const size_t dim = random() % rank;
  const int64_t pad = 1 + Below(random, 3);
  tensor.shape[dim] += pad;
  AddZeros(tensor, static_cast<int>(dim), tensor.shape[dim] - pad, pad);
  return tensor;
}

inline Layout RandomLayout(Random& random, const std::vector<LogicalTensor>& params) {
  std::vector<TensorLayout> tensors;
  for (uint32_t p = 0; p < params.size(); ++p) {
    std::vector<Box> regions;
    Cut(random, WholeBox(params[p].shape), 2, regions);
    for (int64_t replicas = Below(random, 3); replicas > 0; --replicas)
      regions.push_back(regions[random() % regions.size()]);
    for (const Box& region : regions)
      tensors.push_back(RandomTensor(random, "t" + std::to_string(p), p, region));
  }
  std::shuffle(tensors.begin(), tensors.end(), random);
  for (TensorLayout& tensor : tensors) tensor.file = static_cast<uint32_t>(random() % 3);
  return LayoutOf(std::move(tensors));
}

}  // namespace nxdkit::testing_util
