// Log-probabilities of given tokens from vocabulary-parallel logits, and their gradient, without a
// collective in the backward pass. u = z / temperature; log p = u[label] - M - log S with
// M = max u and S = sum exp(u - M) over all ranks' shards. All arrays f32.
#pragma once

#include <cstdint>

namespace nxdkit::trainer {

// The statistics of one shard for one token's logits. CombineShards combines them, in rank order.
struct ShardStatistics {
  float max = 0;    // of u over the shard
  float sum = 0;    // of exp(u - max)
  float mean = 0;   // sum of exp(u - max) * (u - max), for the entropy
  float label = 0;  // u[label] - max when the shard holds the label
};
struct TokenStatistics {
  float max = 0;       // M
  float log_sum = 0;   // log S
  float log_prob = 0;  // of the label
  float entropy = 0;   // of the whole distribution
};

// logits [tokens, columns] of vocabulary rows [first_row, first_row + columns); labels [tokens].
void ShardLogProbs(int64_t tokens, int64_t columns, const float* logits, const int32_t* labels,
                   int64_t first_row, float temperature, ShardStatistics* statistics);

// shards[r * tokens + t]: rank r's statistics of token t. Rank labels[t] / columns holds the label.
void CombineShards(int64_t tokens, int64_t columns, int ranks, const ShardStatistics* shards,
                   const int32_t* labels, TokenStatistics* out);

// The gradient of each log-probability by its logits: (1[v == label] - p) / temperature. `out` may
// be `logits`. Out is float, or uint16_t: rounded to bf16.
template <typename Out>
void LogProbBackward(int64_t tokens, int64_t columns, const float* logits, const int32_t* labels,
                     int64_t first_row, float temperature, const TokenStatistics* statistics,
                     Out* out);

// Parts of a softmax over a long row, for sampling from it.
float MaxOf(const float* values, int64_t count);
// out [count] = exp(values * factor - shift); returns their sum.
void ExpOf(const float* values, int64_t count, float factor, float shift, float* out);
float SumOfExp(const float* values, int64_t count, float factor, float shift);

}  // namespace nxdkit::trainer
