#include "trainer/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "trainer/ops/lanes.h"
#include "trainer/ops/matmul.h"
#include "trainer/ops/parallel.h"

namespace nxdkit::trainer {
namespace {

constexpr int64_t kBlock = 128;  // query rows whose scores are held at once

// scores -> probabilities, dprobs -> gradient of the scores: p * (dp - sum(dout * out)) * scale.
NXDKIT_CLONES void SoftmaxBackward(float* scores, float* dprobs, float lse, float dot, float scale,
                                   int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    scores[i] = Exp(scores[i] - lse);
    dprobs[i] = scores[i] * (dprobs[i] - dot) * scale;
  }
}

NXDKIT_CLONES float RowDot(const float* a, const float* b, int64_t count) {
  return Dot(a, b, count);
}

Matrix F32(const float* data, int64_t stride) { return {data, Dtype::kF32, stride, false}; }

// One block of query rows of one head: rows [first, end) of a sequence see keys [0, end).
struct Block {
  int64_t first;
  int64_t end;
  int64_t rows() const { return end - first; }
};

std::vector<Block> Blocks(int64_t tokens) {
  std::vector<Block> blocks;
  for (int64_t first = 0; first < tokens; first += kBlock)
    blocks.push_back({first, std::min(tokens, first + kBlock)});
  return blocks;
}

// body(sequence start, tokens, key head) for every pair: what different tasks write is disjoint.
template <typename Body>
Status ForEachKeyHead(const AttentionShape& shape, std::span<const int32_t> starts,
                      const Body& body) {
  const int64_t sequences = static_cast<int64_t>(starts.size()) - 1;
  std::vector<Status> results(static_cast<size_t>(sequences * shape.kv_heads), OkStatus());
  ParallelFor(sequences * shape.kv_heads, 1, [&](int64_t task) {
    const size_t s = static_cast<size_t>(task / shape.kv_heads);
    results[static_cast<size_t>(task)] =
        body(int64_t{starts[s]}, int64_t{starts[s + 1] - starts[s]}, task % shape.kv_heads);
  });
  for (Status& result : results)
    if (!result.ok()) return std::move(result);
  return OkStatus();
}

void ZeroFuture(const Block& block, float* scores) {
  for (int64_t row = 0; row < block.rows(); ++row)
    std::fill(scores + row * block.end + block.first + row + 1, scores + (row + 1) * block.end,
              0.0f);
}

}  // namespace

NXDKIT_CLONES float Softmax(float* scores, int64_t count) {
  const float max = Max(scores, count);
  for (int64_t i = 0; i < count; ++i) scores[i] = Exp(scores[i] - max);
  const float sum = Sum(scores, count);
  const float inverse = 1.0f / sum;
  for (int64_t i = 0; i < count; ++i) scores[i] *= inverse;
  return max + std::log(sum);
}

Status AttentionForward(const AttentionShape& shape, std::span<const int32_t> starts,
                        const float* q, const float* k, const float* v, float* out, float* lse) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.width));
  const int64_t group = shape.heads / shape.kv_heads;
  return ForEachKeyHead(shape, starts, [&](int64_t start, int64_t tokens, int64_t kv) -> Status {
    std::vector<float> scores(static_cast<size_t>(std::min(tokens, kBlock) * tokens));
    const float* keys = k + start * shape.k_stride + kv * shape.width;
    const float* values = v + start * shape.v_stride + kv * shape.width;
    for (int64_t head = kv * group; head < (kv + 1) * group; ++head)
      for (const Block& block : Blocks(tokens)) {
        const int64_t t = start + block.first;
        NXDKIT_TRY(MultiplyF32(block.rows(), block.end, shape.width,
                               F32(q + t * shape.q_stride + head * shape.width, shape.q_stride),
                               Transposed(F32(keys, shape.k_stride)), scores.data(), block.end,
                               false, scale));
        for (int64_t row = 0; row < block.rows(); ++row)
          lse[(t + row) * shape.heads + head] =
              Softmax(scores.data() + row * block.end, block.first + row + 1);
        ZeroFuture(block, scores.data());
        NXDKIT_TRY(MultiplyF32(block.rows(), shape.width, block.end, F32(scores.data(), block.end),
                               F32(values, shape.v_stride),
                               out + t * shape.out_stride + head * shape.width, shape.out_stride,
                               false));
      }
    return OkStatus();
  });
}

Status AttentionBackward(const AttentionShape& shape, std::span<const int32_t> starts,
                         const float* q, const float* k, const float* v, const float* out,
                         const float* lse, const float* dout, float* dq, float* dk, float* dv) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.width));
  const int64_t group = shape.heads / shape.kv_heads;
  return ForEachKeyHead(shape, starts, [&](int64_t start, int64_t tokens, int64_t kv) -> Status {
    std::vector<float> scores(static_cast<size_t>(std::min(tokens, kBlock) * tokens));
    std::vector<float> dprobs(scores.size());
    const int64_t k_at = start * shape.k_stride + kv * shape.width;
    const int64_t v_at = start * shape.v_stride + kv * shape.width;
    for (int64_t t = 0; t < tokens; ++t) {
      std::fill_n(dk + k_at + t * shape.k_stride, shape.width, 0.0f);
      std::fill_n(dv + v_at + t * shape.v_stride, shape.width, 0.0f);
    }
    for (int64_t head = kv * group; head < (kv + 1) * group; ++head)
      for (const Block& block : Blocks(tokens)) {
        const int64_t t = start + block.first;
        const int64_t out_at = t * shape.out_stride + head * shape.width;
        const int64_t q_at = t * shape.q_stride + head * shape.width;
        const Matrix queries = F32(q + q_at, shape.q_stride);
        const Matrix dout_rows = F32(dout + out_at, shape.out_stride);
        NXDKIT_TRY(MultiplyF32(block.rows(), block.end, shape.width, queries,
                               Transposed(F32(k + k_at, shape.k_stride)), scores.data(), block.end,
                               false, scale));
        NXDKIT_TRY(MultiplyF32(block.rows(), block.end, shape.width, dout_rows,
                               Transposed(F32(v + v_at, shape.v_stride)), dprobs.data(), block.end,
                               false));
        for (int64_t row = 0; row < block.rows(); ++row) {
          const int64_t at = out_at + row * shape.out_stride;
          SoftmaxBackward(scores.data() + row * block.end, dprobs.data() + row * block.end,
                          lse[(t + row) * shape.heads + head],
                          RowDot(dout + at, out + at, shape.width), scale, block.first + row + 1);
        }
        ZeroFuture(block, scores.data());
        ZeroFuture(block, dprobs.data());
        const Matrix dscores = F32(dprobs.data(), block.end);
        NXDKIT_TRY(MultiplyF32(block.rows(), shape.width, block.end, dscores,
                               F32(k + k_at, shape.k_stride), dq + q_at, shape.q_stride, false));
        NXDKIT_TRY(MultiplyF32(block.end, shape.width, block.rows(), Transposed(dscores), queries,
                               dk + k_at, shape.k_stride, true));
        NXDKIT_TRY(MultiplyF32(block.end, shape.width, block.rows(),
                               Transposed(F32(scores.data(), block.end)), dout_rows, dv + v_at,
                               shape.v_stride, true));
      }
    return OkStatus();
  });
}

}  // namespace nxdkit::trainer
