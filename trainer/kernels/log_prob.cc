#include "trainer/kernels/log_prob.h"

#include <algorithm>
#include <cmath>

#include "trainer/base/lanes.h"
#include "trainer/base/parallel.h"

namespace nxdkit::trainer {
namespace {

NXDKIT_CLONES ShardStatistics RowStatistics(const float* logits, int64_t columns, float inverse) {
  ShardStatistics row;
  row.max = Max(logits, columns) * inverse;
  Lanes sum = {};
  Lanes mean = {};
  int64_t i = 0;
  for (; i + kLanes <= columns; i += kLanes) {
    float u[kLanes], e[kLanes];
    for (int64_t k = 0; k < kLanes; ++k) {
      u[k] = logits[i + k] * inverse - row.max;
      e[k] = Exp(u[k]);
    }
    Lanes shifted, weights;
    Load(u, shifted);
    Load(e, weights);
    sum += weights;
    mean += weights * shifted;
  }
  row.sum = Fold(sum);
  row.mean = Fold(mean);
  for (; i < columns; ++i) {
    const float u = logits[i] * inverse - row.max;
    row.sum += Exp(u);
    row.mean += Exp(u) * u;
  }
  return row;
}

template <typename Out>
NXDKIT_CLONES void RowBackward(const float* logits, int64_t columns, float inverse, float shift,
                               Out* out) {
  for (int64_t i = 0; i < columns; ++i) Put(-inverse * Exp(logits[i] * inverse - shift), out + i);
}
}  // namespace

void ShardLogProbs(int64_t tokens, int64_t columns, const float* logits, const int32_t* labels,
                   int64_t first_row, float temperature, ShardStatistics* statistics) {
  const float inverse = 1.0f / temperature;
  ParallelFor(tokens, 4, [&](int64_t t) {
    const float* row = logits + t * columns;
    statistics[t] = RowStatistics(row, columns, inverse);
    const int64_t label = labels[t] - first_row;
    if (label >= 0 && label < columns)
      statistics[t].label = row[label] * inverse - statistics[t].max;
  });
}

void CombineShards(int64_t tokens, int64_t columns, int ranks, const ShardStatistics* shards,
                   const int32_t* labels, TokenStatistics* out) {
  for (int64_t t = 0; t < tokens; ++t) {
    float max = shards[t].max;
    for (int r = 1; r < ranks; ++r) max = std::max(max, shards[r * tokens + t].max);
    // exp(u - M) = exp(u - m) * exp(m - M), and u - M = (u - m) + (m - M).
    float sum = 0;
    float mean = 0;
    for (int r = 0; r < ranks; ++r) {
      const ShardStatistics& shard = shards[r * tokens + t];
      const float shift = shard.max - max;
      const float scale = std::exp(shift);
      sum += scale * shard.sum;
      if (scale > 0) mean += scale * (shard.mean + shift * shard.sum);
    }
    const ShardStatistics& holder = shards[(labels[t] / columns) * tokens + t];
    out[t].max = max;
    out[t].log_sum = std::log(sum);
    out[t].log_prob = holder.label + (holder.max - max) - out[t].log_sum;
    out[t].entropy = out[t].log_sum - mean / sum;
  }
}

template <typename Out>
void LogProbBackward(int64_t tokens, int64_t columns, const float* logits, const int32_t* labels,
                     int64_t first_row, float temperature, const TokenStatistics* statistics,
                     Out* out) {
  const float inverse = 1.0f / temperature;
  ParallelFor(tokens, 4, [&](int64_t t) {
    const float* row = logits + t * columns;
    const float shift = statistics[t].max + statistics[t].log_sum;
    const int64_t label = labels[t] - first_row;
    const bool here = label >= 0 && label < columns;
    const float of_label = here ? inverse - inverse * Exp(row[label] * inverse - shift) : 0;
    RowBackward(row, columns, inverse, shift, out + t * columns);
    if (here) Put(of_label, out + t * columns + label);
  });
}

template void LogProbBackward(int64_t, int64_t, const float*, const int32_t*, int64_t, float,
                              const TokenStatistics*, float*);
template void LogProbBackward(int64_t, int64_t, const float*, const int32_t*, int64_t, float,
                              const TokenStatistics*, uint16_t*);

NXDKIT_CLONES float MaxOf(const float* values, int64_t count) { return Max(values, count); }

NXDKIT_CLONES void ExpOf(const float* values, int64_t count, float factor, float shift,
                         float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = Exp(values[i] * factor - shift);
}

NXDKIT_CLONES float SumOfExp(const float* values, int64_t count, float factor, float shift) {
  Lanes sum = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    float e[kLanes];
    for (int64_t k = 0; k < kLanes; ++k) e[k] = Exp(values[i + k] * factor - shift);
    Lanes lanes;
    Load(e, lanes);
    sum += lanes;
  }
  float rest = Fold(sum);
  for (; i < count; ++i) rest += Exp(values[i] * factor - shift);
  return rest;
}

}  // namespace nxdkit::trainer
