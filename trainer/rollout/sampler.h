// Draws tokens from logits that are split over the vocabulary. All ranks of the group draw the same
// token: each sends what the others need from its share, then all do the same arithmetic.
//
//   u = z / temperature; the `top_k` largest; among these the most likely up to a mass of top_p;
//   one of them by the inverse distribution function.
//
// Equal logits are ordered by id. Without top_k and top_p nothing is sorted and the function runs
// over the ids of the vocabulary; else over the candidates, most likely first.
#pragma once

#include <span>
#include <vector>

#include "trainer/comm/comm.h"
#include "trainer/rollout/sampling.h"

namespace nxdkit::trainer {

// One token to draw from a row of the logits: the parameters, and the number from [0, 1) to use.
struct Draw {
  const SamplingParams* params = nullptr;
  double uniform = 0;
  size_t request = 0;     // for messages
  uint32_t position = 0;  //
};
struct Drawn {
  int32_t token = 0;
  float log_prob = 0;  // when requested
};

// The sampler of one rank; it keeps its buffers. Not thread-safe; uses the rank's threads.
class Sampler {
 public:
  // This rank has vocabulary rows [rank * columns, (rank + 1) * columns).
  Sampler(Comm& tp, int64_t columns) : tp_(&tp), columns_(columns) {}

  // Collective. logits [draws, columns] of this rank. kCorrupt naming request and position when a
  // row's logits are not finite.
  Status Sample(std::span<const Draw> draws, const float* logits, std::vector<Drawn>& out);

 private:
  struct Mass {
    float max = 0;   // of u
    float pad = 0;   //
    double sum = 0;  // of exp(u - max)
  };
  Status MakeMasses(std::span<const Draw> draws, const float* logits);
  Status DrawFromAll(std::span<const Draw> draws, const float* logits, std::vector<Drawn>& out);
  Status DrawSorted(std::span<const Draw> draws, const float* logits, std::vector<Drawn>& out);
  Status MakeLogProbs(std::span<const Draw> draws, const float* logits, std::vector<Drawn>& out);
  int32_t FindByMass(size_t row, const float* logits, float temperature, double target) const;
  double TotalMass(size_t row, float& max) const;
  int64_t block_count() const;

  Comm* tp_;
  int64_t columns_;
  std::vector<Mass> masses_;        // [draws] on this rank
  std::vector<Mass> all_masses_;    // [ranks, draws]
  std::vector<double> block_sums_;  // [draws, blocks] on this rank
};

}  // namespace nxdkit::trainer
