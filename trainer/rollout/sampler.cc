#include "trainer/rollout/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/base/errors.h"
#include "trainer/base/parallel.h"
#include "trainer/kernels/log_prob.h"

namespace nxdkit::trainer {
namespace {

constexpr int64_t kBlock = 256;           // columns per known sum of mass
constexpr size_t kFirstCandidates = 256;  // per rank; a flat distribution gradually takes more
constexpr size_t kMore = 8;

float Temperature(const SamplingParams& params) {
  return params.temperature > 0 ? params.temperature : 1.0f;
}

bool IsSorted(const SamplingParams& params) {
  return params.temperature == 0 || params.top_k > 0 || params.top_p < 1;
}

struct Candidate {
  float logit = 0;
  int32_t token = 0;
};
bool Before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// The `count` best of `columns` logits, the first of which is that of `first_token`, sorted;
// missing ones are -infinity and sort after all tokens.
void TakeBest(const float* logits, int64_t columns, int32_t first_token, size_t count,
              Candidate* best) {
  const size_t wanted = std::min(count, static_cast<size_t>(columns));
  std::vector<Candidate> heap;  // its front is the worst
  heap.reserve(wanted);
  for (int64_t block = 0; block < columns; block += kBlock) {
    const int64_t end = std::min(columns, block + kBlock);
    if (heap.size() == wanted && MaxOf(logits + block, end - block) <= heap.front().logit) continue;
    for (int64_t i = block; i < end; ++i) {
      const Candidate candidate{logits[i], first_token + static_cast<int32_t>(i)};
      if (heap.size() == wanted) {
        if (!Before(candidate, heap.front())) continue;
        std::ranges::pop_heap(heap, Before);
        heap.back() = candidate;
      } else {
        heap.push_back(candidate);
      }
      std::ranges::push_heap(heap, Before);
    }
  }
  std::ranges::sort_heap(heap, Before);
  std::fill(
      std::ranges::copy(heap, best).out, best + count,
      Candidate{-std::numeric_limits<float>::infinity(), std::numeric_limits<int32_t>::max()});
}

// False when there are too few candidates to determine the cut of top_p. `all`: there are no
// others; `total`: the mass of the whole row.
bool Choose(const Draw& draw, std::span<const Candidate> sorted, bool all, double total,
            int32_t& token) {
  const SamplingParams& params = *draw.params;
  token = sorted[0].token;
  if (params.temperature == 0 || params.top_k == 1) return true;
  size_t kept = sorted.size();
  if (params.top_k > 0) kept = std::min(kept, static_cast<size_t>(params.top_k));
  const float inverse = 1.0f / params.temperature;
  const double top = double{sorted[0].logit * inverse};
  std::vector<double> weights(kept);
  double mass = 0;
  for (size_t i = 0; i < kept; ++i)
    mass += weights[i] = std::exp(double{sorted[i].logit * inverse} - top);
  const double whole = params.top_k > 0 ? mass : total;
  const double limit = params.top_p < 1 ? double{params.top_p} * whole : whole;
  size_t count = 0;
  double reached = 0;
  while (count < kept && (count == 0 || reached < limit)) reached += weights[count++];
  if (params.top_k <= 0 && reached < limit && !all) return false;
  double target = draw.uniform * reached;
  for (size_t i = 0; i < count; ++i) {
    if (weights[i] <= 0) break;
    token = sorted[i].token;
    if (target < weights[i]) break;
    target -= weights[i];
  }
  return true;
}

template <typename T>
Status Gather(Comm& comm, const std::vector<T>& mine, std::vector<T>& all) {
  all.resize(mine.size() * static_cast<size_t>(comm.size()));
  return comm.AllGather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
}

}  // namespace

int64_t Sampler::block_count() const { return (columns_ + kBlock - 1) / kBlock; }

Status Sampler::Sample(std::span<const Draw> draws, const float* logits, std::vector<Drawn>& out) {
  out.assign(draws.size(), {});
  if (draws.empty()) return OkStatus();
  NXDKIT_TRY(MakeMasses(draws, logits));
  NXDKIT_TRY(DrawFromAll(draws, logits, out));
  NXDKIT_TRY(DrawSorted(draws, logits, out));
  return MakeLogProbs(draws, logits, out);
}

Status Sampler::MakeMasses(std::span<const Draw> draws, const float* logits) {
  const int64_t rows = std::ssize(draws);
  masses_.resize(draws.size());
  block_sums_.resize(draws.size() * static_cast<size_t>(block_count()));
  ParallelFor(rows, 1, [&](int64_t row) {
    const float inverse = 1.0f / Temperature(*draws[static_cast<size_t>(row)].params);
    const float* z = logits + row * columns_;
    Mass& mass = masses_[static_cast<size_t>(row)];
    mass.max = MaxOf(z, columns_) * inverse;
    mass.sum = 0;
    for (int64_t block = 0; block < block_count(); ++block) {
      const int64_t first = block * kBlock;
      const double sum = SumOfExp(z + first, std::min(kBlock, columns_ - first), inverse, mass.max);
      block_sums_[static_cast<size_t>(row * block_count() + block)] = sum;
      mass.sum += sum;
    }
  });
  NXDKIT_TRY(Gather(*tp_, masses_, all_masses_));
  for (size_t row = 0; row < draws.size(); ++row) {
    float max = 0;
    if (const double total = TotalMass(row, max); !(total > 0 && total < INFINITY))
      return Corrupt(
          "the logits for token {} of request {} are not finite (largest {}, mass {}): the weights "
          "are damaged or have diverged",
          draws[row].position, draws[row].request, max, total);
  }
  return OkStatus();
}

// Over all ranks, relative to the largest u of all.
double Sampler::TotalMass(size_t row, float& max) const {
  const size_t rows = masses_.size();
  max = -std::numeric_limits<float>::infinity();
  for (size_t at = row; at < all_masses_.size(); at += rows)
    max = std::max(max, all_masses_[at].max);
  double total = 0;
  for (size_t at = row; at < all_masses_.size(); at += rows)
    total += all_masses_[at].sum * std::exp(double{all_masses_[at].max} - double{max});
  return total;
}

Status Sampler::DrawFromAll(std::span<const Draw> draws, const float* logits,
                            std::vector<Drawn>& out) {
  std::vector<int32_t> mine(draws.size(), -1), all;
  bool any = false;
  for (size_t row = 0; row < draws.size(); ++row) {
    if (IsSorted(*draws[row].params)) continue;
    any = true;
    float max = 0;
    double target = draws[row].uniform * TotalMass(row, max);
    // The rank whose share contains the target; if rounding left none, the last one with any mass.
    int owner = -1;
    double within = 0;
    for (int rank = 0; rank < tp_->size(); ++rank) {
      const Mass& mass = all_masses_[static_cast<size_t>(rank) * draws.size() + row];
      const double scale = std::exp(double{mass.max} - double{max});
      if (mass.sum * scale <= 0) continue;
      owner = rank;
      within = target / scale;
      if (target < mass.sum * scale) break;
      target -= mass.sum * scale;
    }
    if (owner == tp_->rank())
      mine[row] = FindByMass(row, logits + static_cast<int64_t>(row) * columns_,
                             Temperature(*draws[row].params), within) +
                  static_cast<int32_t>(owner * columns_);
  }
  if (!any) return OkStatus();
  NXDKIT_TRY(Gather(*tp_, mine, all));
  for (size_t at = 0; at < all.size(); ++at)
    if (all[at] >= 0) out[at % draws.size()].token = all[at];
  return OkStatus();
}

// The first column of this rank's share at which the running mass exceeds the target.
int32_t Sampler::FindByMass(size_t row, const float* logits, float temperature,
                            double target) const {
  const double* sums = block_sums_.data() + row * static_cast<size_t>(block_count());
  int64_t found = -1;
  for (int64_t block = 0; block < block_count(); ++block) {
    if (sums[block] <= 0) continue;
    found = block;
    if (target < sums[block]) break;
    target -= sums[block];
  }
  const float inverse = 1.0f / temperature;
  const int64_t first = found * kBlock;
  float weights[kBlock];
  const int64_t count = std::min(kBlock, columns_ - first);
  ExpOf(logits + first, count, inverse, masses_[row].max, weights);
  int64_t last = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (weights[i] <= 0) continue;
    last = i;
    if (target < double{weights[i]}) break;
    target -= double{weights[i]};
  }
  return static_cast<int32_t>(first + last);
}

Status Sampler::DrawSorted(std::span<const Draw> draws, const float* logits,
                           std::vector<Drawn>& out) {
  std::vector<size_t> rows;
  for (size_t row = 0; row < draws.size(); ++row)
    if (IsSorted(*draws[row].params)) rows.push_back(row);
  const size_t ranks = static_cast<size_t>(tp_->size());
  size_t count = 1;
  for (const size_t row : rows) {
    const SamplingParams& params = *draws[row].params;
    const size_t need = params.temperature == 0 ? 1
                        : params.top_k > 0      ? static_cast<size_t>(params.top_k)
                                                : kFirstCandidates;
    count = std::max(count, need);
  }
  while (!rows.empty()) {
    count = std::min(count, static_cast<size_t>(columns_));
    std::vector<Candidate> mine(rows.size() * count), all, sorted(ranks * count);
    ParallelFor(std::ssize(rows), 1, [&](int64_t i) {
      const size_t row = rows[static_cast<size_t>(i)];
      TakeBest(logits + static_cast<int64_t>(row) * columns_, columns_,
               static_cast<int32_t>(tp_->rank() * columns_), count,
               mine.data() + static_cast<size_t>(i) * count);
    });
    NXDKIT_TRY(Gather(*tp_, mine, all));
    std::vector<size_t> open;
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t rank = 0; rank < ranks; ++rank)
        std::copy_n(all.data() + rank * mine.size() + i * count, count,
                    sorted.data() + rank * count);
      std::ranges::sort(sorted, Before);
      // Among the candidates of all ranks, only the first `count` are sure to be the best overall.
      const bool whole = count == static_cast<size_t>(columns_);
      const std::span<const Candidate> sure =
          std::span<const Candidate>(sorted).first(whole ? sorted.size() : count);
      float max = 0;
      const double total = TotalMass(rows[i], max);
      if (!Choose(draws[rows[i]], sure, whole, total, out[rows[i]].token)) open.push_back(rows[i]);
    }
    rows = std::move(open);
    count *= kMore;
  }
  return OkStatus();
}

Status Sampler::MakeLogProbs(std::span<const Draw> draws, const float* logits,
                             std::vector<Drawn>& out) {
  std::vector<size_t> rows;
  for (size_t row = 0; row < draws.size(); ++row)
    if (draws[row].params->log_probs) rows.push_back(row);
  if (rows.empty()) return OkStatus();
  std::vector<ShardStatistics> mine(rows.size()), all;
  std::vector<int32_t> labels(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) labels[i] = out[rows[i]].token;
  ParallelFor(std::ssize(rows), 1, [&](int64_t i) {
    const size_t row = rows[static_cast<size_t>(i)];
    ShardLogProbs(1, columns_, logits + static_cast<int64_t>(row) * columns_, labels.data() + i,
                  tp_->rank() * columns_, Temperature(*draws[row].params), mine.data() + i);
  });
  NXDKIT_TRY(Gather(*tp_, mine, all));
  std::vector<TokenStatistics> statistics(rows.size());
  CombineShards(std::ssize(rows), columns_, tp_->size(), all.data(), labels.data(),
                statistics.data());
  for (size_t i = 0; i < rows.size(); ++i) out[rows[i]].log_prob = statistics[i].log_prob;
  return OkStatus();
}

}  // namespace nxdkit::trainer
