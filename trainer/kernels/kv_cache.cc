#include "trainer/kernels/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "trainer/base/lanes.h"
#include "trainer/base/parallel.h"
#include "trainer/kernels/attention.h"
#include "trainer/kernels/tile.h"

namespace nxdkit::trainer {
namespace {

// One query head of one token.
struct QueryRow {
  const float* q;
  float* out;
  int64_t begin, end;  // positions that it sees
};

template <typename V>
NXDKIT_INLINE void LoadElements(const float* from, typename V::Floats& to) {
  std::memcpy(&to, from, sizeof to);
}
template <typename V>
NXDKIT_INLINE void LoadElements(const uint16_t* from, typename V::Floats& to) {
  typename V::Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  const auto words = __builtin_convertvector(halves, typename V::Words) << 16;
  std::memcpy(&to, &words, sizeof to);
}

// Vectors of positions, or of values, processed at once: kMaxRows rows of them fit the registers.
template <typename V>
constexpr int64_t kAtOnce = std::is_same_v<V, Wide> ? 4 : 2;

// Scores of kVectors vectors of positions, whole blocks, for each row: one chain over D per
// position.
template <typename V, int64_t kRows, int64_t kVectors, typename Element>
NXDKIT_INLINE void ScoreVectors(const QueryRow* rows, const Element* keys, int64_t width,
                                float scale, float* scores, int64_t stride) {
  constexpr int64_t kInBlock = kLanes / V::kWidth;
  typename V::Floats sums[kRows][kVectors] = {};
  for (int64_t d = 0; d < width; ++d) {
    typename V::Floats k[kVectors];
    for (int64_t v = 0; v < kVectors; ++v)
      LoadElements<V>(keys + (v / kInBlock * width + d) * kLanes + v % kInBlock * V::kWidth, k[v]);
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t v = 0; v < kVectors; ++v) sums[r][v] += k[v] * rows[r].q[d];
  }
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t v = 0; v < kVectors; ++v) {
      const typename V::Floats scaled = sums[r][v] * scale;
      std::memcpy(scores + r * stride + v * V::kWidth, &scaled, sizeof scaled);
    }
}

template <typename V, int64_t kRows, typename Element>
NXDKIT_INLINE void Score(const QueryRow* rows, const Element* keys, int64_t blocks, int64_t width,
                         float scale, float* scores, int64_t stride) {
  constexpr int64_t kInBlock = kLanes / V::kWidth;
  constexpr int64_t kBlocks = kAtOnce<V> / kInBlock;
  int64_t b = 0;
  for (; b + kBlocks <= blocks; b += kBlocks)
    ScoreVectors<V, kRows, kAtOnce<V>>(rows, keys + b * width * kLanes, width, scale,
                                       scores + b * kLanes, stride);
  for (; b < blocks; ++b)
    ScoreVectors<V, kRows, kInBlock>(rows, keys + b * width * kLanes, width, scale,
                                     scores + b * kLanes, stride);
}

// sums [rows, wide] += probabilities * values over positions [first, end): a chain for each.
template <typename V, int64_t kRows, int64_t kVectors, typename Element>
NXDKIT_INLINE void MixVectors(const float* probabilities, int64_t stride, const Element* values,
                              int64_t wide, int64_t first, int64_t end, float* sums) {
  typename V::Floats sum[kRows][kVectors];
  for (int64_t r = 0; r < kRows; ++r) std::memcpy(sum[r], sums + r * wide, sizeof sum[r]);
  for (int64_t t = first; t < end; ++t) {
    typename V::Floats v[kVectors];
    for (int64_t i = 0; i < kVectors; ++i) LoadElements<V>(values + t * wide + i * V::kWidth, v[i]);
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t i = 0; i < kVectors; ++i) sum[r][i] += v[i] * probabilities[r * stride + t];
  }
  for (int64_t r = 0; r < kRows; ++r) std::memcpy(sums + r * wide, sum[r], sizeof sum[r]);
}

template <typename V, int64_t kRows, typename Element>
NXDKIT_INLINE void Mix(const float* probabilities, int64_t stride, const Element* values,
                       int64_t wide, int64_t first, int64_t end, float* sums) {
  constexpr int64_t kVectors = kAtOnce<V>;
  int64_t d = 0;
  for (; d + kVectors * V::kWidth <= wide; d += kVectors * V::kWidth)
    MixVectors<V, kRows, kVectors>(probabilities, stride, values + d, wide, first, end, sums + d);
  for (; d < wide; d += V::kWidth)
    MixVectors<V, kRows, 1>(probabilities, stride, values + d, wide, first, end, sums + d);
}

// Passes the number of rows as a constant.
template <typename V, int64_t kRows = 1, typename Element>
NXDKIT_INLINE void ScoreRows(int64_t rows, const QueryRow* row, const Element* keys, int64_t blocks,
                             int64_t width, float scale, float* scores, int64_t stride) {
  if constexpr (kRows < kMaxRows)
    if (rows != kRows)
      return ScoreRows<V, kRows + 1>(rows, row, keys, blocks, width, scale, scores, stride);
  Score<V, kRows>(row, keys, blocks, width, scale, scores, stride);
}

template <typename V, int64_t kRows = 1, typename Element>
NXDKIT_INLINE void MixRows(int64_t rows, const float* probabilities, int64_t stride,
                           const Element* values, int64_t wide, int64_t end, float* sums) {
  if constexpr (kRows < kMaxRows)
    if (rows != kRows)
      return MixRows<V, kRows + 1>(rows, probabilities, stride, values, wide, end, sums);
  Mix<V, kRows>(probabilities, stride, values, wide, 0, end, sums);
}

template <typename V, typename Element>
NXDKIT_CLONES void ScoreKeys(int64_t rows, const QueryRow* row, const Element* keys, int64_t blocks,
                             int64_t width, float scale, float* scores, int64_t stride) {
  ScoreRows<V>(rows, row, keys, blocks, width, scale, scores, stride);
}
template <typename V, typename Element>
NXDKIT_CLONES void MixValues(int64_t rows, const float* probabilities, int64_t stride,
                             const Element* values, int64_t wide, int64_t end, float* sums) {
  MixRows<V>(rows, probabilities, stride, values, wide, end, sums);
}
template <typename V, typename Element>
NXDKIT_CLONES void MixTail(const float* probabilities, const Element* values, int64_t wide,
                           int64_t first, int64_t end, float* sums) {
  Mix<V, 1>(probabilities, 0, values, wide, first, end, sums);
}

// A few query rows that share keys and values.
template <typename V, typename Element>
void AttendTile(std::span<const QueryRow> rows, const Element* keys, const Element* values,
                int64_t width, int64_t wide) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(width));
  const int64_t count = std::ssize(rows);
  int64_t longest = 0, shortest = rows[0].end, begin = rows[0].begin;
  for (const QueryRow& row : rows) {
    longest = std::max(longest, row.end);
    shortest = std::min(shortest, row.end);
    begin = std::min(begin, row.begin);
  }
  // Positions count from the first block that a row sees.
  const int64_t skipped = begin / kLanes * kLanes;
  keys += skipped * width;
  values += skipped * wide;
  const int64_t stride = RoundUp(longest - skipped, kLanes);
  std::vector<float> scores(static_cast<size_t>(count * stride));
  std::vector<float> sums(static_cast<size_t>(count * wide));
  ScoreKeys<V>(count, rows.data(), keys, stride / kLanes, width, scale, scores.data(), stride);
  for (int64_t r = 0; r < count; ++r) {
    const QueryRow& row = rows[static_cast<size_t>(r)];
    float* const first = scores.data() + r * stride;
    Softmax(first + (row.begin - skipped), row.end - row.begin);
    std::fill(first, first + (row.begin - skipped), 0.0f);
  }
  // A zero adds nothing to a chain, so the positions that a row does not see change none of its
  // bits.
  MixValues<V>(count, scores.data(), stride, values, wide, shortest - skipped, sums.data());
  for (int64_t r = 0; r < count; ++r) {
    const QueryRow& row = rows[static_cast<size_t>(r)];
    float* sum = sums.data() + r * wide;
    // Positions after the shortest row are added to the same chain.
    MixTail<V>(scores.data() + r * stride, values, wide, shortest - skipped, row.end - skipped,
               sum);
    std::copy_n(sum, width, row.out);
  }
}

// Places [first, end) of one slot.
struct Run {
  size_t first;
  size_t end;
};
std::vector<Run> Runs(std::span<const CachePlace> places) {
  std::vector<Run> runs;
  for (size_t i = 0; i < places.size(); ++i)
    if (i == 0 || places[i].slot != places[i - 1].slot)
      runs.push_back({i, i + 1});
    else
      runs.back().end = i + 1;
  return runs;
}

// Tokens of a run, for one key head: the work of one thread in one piece.
constexpr size_t kTokens = 32;
struct Task {
  size_t first;
  size_t end;
  int64_t kv_head;
};

}  // namespace

int64_t KvCache::KeyAt(int64_t slot, int64_t head) const {
  return (slot * shape_.kv_heads + head) * blocks_ * kLanes * shape_.width;
}
int64_t KvCache::ValueAt(int64_t slot, int64_t head) const {
  return (slot * shape_.kv_heads + head) * shape_.positions * wide_;
}

Result<KvCache> KvCache::Make(const Shape& shape) {
  KvCache cache;
  cache.shape_ = shape;
  cache.blocks_ = (shape.positions + kLanes - 1) / kLanes;
  cache.wide_ = RoundUp(shape.width, kLanes);
  const auto take = [&](int64_t per_head) -> std::unique_ptr<void, Free> {
    std::optional<int64_t> bytes = int64_t{ElementBytes(shape.dtype)};
    for (const int64_t factor : {shape.slots, shape.kv_heads, per_head})
      if (bytes) bytes = CheckedMul<int64_t>(*bytes, factor);
    if (!bytes || *bytes > INT64_MAX - 64) return nullptr;
    return std::unique_ptr<void, Free>(
        std::aligned_alloc(64, static_cast<size_t>(RoundUp(*bytes, 64))));
  };
  cache.keys_ = take(cache.blocks_ * kLanes * shape.width);
  cache.values_ = take(shape.positions * cache.wide_);
  if (cache.keys_ && cache.values_) return cache;
  return OverLimit(
      "not enough memory for the keys and values of {} sequences of {} tokens, {} heads of {}",
      shape.slots, shape.positions, shape.kv_heads, shape.width);
}

int64_t KvCache::bytes() const {
  return shape_.slots * shape_.kv_heads * ElementBytes(shape_.dtype) *
         (blocks_ * kLanes * shape_.width + shape_.positions * wide_);
}

template <typename Element>
void KvCache::StoreAll(std::span<const CachePlace> places, const float* k, const float* v,
                       int64_t stride) {
  auto* const keys = static_cast<Element*>(keys_.get());
  auto* const values = static_cast<Element*>(values_.get());
  ParallelFor(std::ssize(places), 16, [&](int64_t i) {
    const CachePlace& place = places[static_cast<size_t>(i)];
    const auto convert = [&](const float* from, Element* to) {
      ConvertElements(Dtype::kF32, reinterpret_cast<const std::byte*>(from), shape_.dtype,
                      reinterpret_cast<std::byte*>(to), shape_.width);
    };
    std::vector<Element> key(static_cast<size_t>(shape_.width));
    for (int64_t head = 0; head < shape_.kv_heads; ++head) {
      convert(v + i * stride + head * shape_.width,
              values + ValueAt(place.slot, head) + place.position * wide_);
      convert(k + i * stride + head * shape_.width, key.data());
      Element* block = keys + KeyAt(place.slot, head) +
                       place.position / kLanes * kLanes * shape_.width + place.position % kLanes;
      for (int64_t d = 0; d < shape_.width; ++d) block[d * kLanes] = key[static_cast<size_t>(d)];
    }
  });
}

void KvCache::Store(std::span<const CachePlace> places, const float* k, const float* v,
                    int64_t stride) {
  if (shape_.dtype == Dtype::kF32) return StoreAll<float>(places, k, v, stride);
  StoreAll<uint16_t>(places, k, v, stride);
}

void KvCache::CopyPrefix(int32_t from, int32_t to, int64_t positions) {
  const int64_t element = ElementBytes(shape_.dtype);
  auto* const keys = static_cast<std::byte*>(keys_.get());
  auto* const values = static_cast<std::byte*>(values_.get());
  const auto copy = [&](std::byte* base, int64_t source, int64_t target, int64_t count) {
    std::memcpy(base + target * element, base + source * element,
                static_cast<size_t>(count * element));
  };
  ParallelFor(shape_.kv_heads, 1, [&](int64_t head) {
    copy(keys, KeyAt(from, head), KeyAt(to, head), RoundUp(positions, kLanes) * shape_.width);
    copy(values, ValueAt(from, head), ValueAt(to, head), positions * wide_);
  });
}

template <typename Element>
void KvCache::AttendAll(std::span<const CachePlace> places, int64_t heads, const float* q,
                        int64_t q_stride, float* out, int64_t out_stride) const {
  const int64_t group = heads / shape_.kv_heads;
  std::vector<Task> tasks;
  for (const Run& run : Runs(places))
    for (size_t first = run.first; first < run.end; first += kTokens)
      for (int64_t head = 0; head < shape_.kv_heads; ++head)
        tasks.push_back({first, std::min(run.end, first + kTokens), head});
  const auto* const keys = static_cast<const Element*>(keys_.get());
  const auto* const values = static_cast<const Element*>(values_.get());
  ParallelFor(std::ssize(tasks), 1, [&](int64_t i) {
    const Task& task = tasks[static_cast<size_t>(i)];
    const int32_t slot = places[task.first].slot;
    const auto attend = HasWide() ? AttendTile<Wide, Element> : AttendTile<Narrow, Element>;
    std::vector<QueryRow> rows;
    for (size_t token = task.first; token < task.end; ++token)
      for (int64_t head = task.kv_head * group; head < (task.kv_head + 1) * group; ++head)
        rows.push_back({q + static_cast<int64_t>(token) * q_stride + head * shape_.width,
                        out + static_cast<int64_t>(token) * out_stride + head * shape_.width,
                        shape_.window > 0
                            ? std::max<int64_t>(0, places[token].position + 1 - shape_.window)
                            : 0,
                        places[token].position + 1});
    for (size_t first = 0; first < rows.size(); first += kMaxRows)
      attend(std::span<const QueryRow>(rows).subspan(
                 first, std::min<size_t>(kMaxRows, rows.size() - first)),
             keys + KeyAt(slot, task.kv_head), values + ValueAt(slot, task.kv_head), shape_.width,
             wide_);
  });
}

void KvCache::Attend(std::span<const CachePlace> places, int64_t heads, const float* q,
                     int64_t q_stride, float* out, int64_t out_stride) const {
  if (shape_.dtype == Dtype::kF32)
    return AttendAll<float>(places, heads, q, q_stride, out, out_stride);
  AttendAll<uint16_t>(places, heads, q, q_stride, out, out_stride);
}

}  // namespace nxdkit::trainer
