// Keys and values of one layer of one rank, for a fixed number of sequences of a fixed length, and
// the attention of single tokens over them.
//
// A token's results depend only on its queries and on the keys and values up to its own position,
// bit for bit: not on the other rows of the call, slots or threads. So a prompt may be processed in
// any pieces, and its keys and values may be copied from one slot to another.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "lib/tensor/dtype.h"

namespace nxdkit::trainer {

// A token's position in a slot: it sees positions [0, position], or the last `window` of them.
struct CachePlace {
  int32_t slot = 0;
  int32_t position = 0;
};

// Movable. Calls that store and calls that read must not overlap.
class KvCache {
 public:
  struct Shape {
    int64_t slots = 0;
    int64_t kv_heads = 0;
    int64_t positions = 0;
    int64_t width = 0;           // D
    Dtype dtype = Dtype::kBF16;  // or kF32
    int64_t window = 0;          // positions that a token sees, its own included; 0: all
  };
  // Memory is allocated, not touched. kLimit when there is too little.
  static Result<KvCache> Make(const Shape& shape);

  int64_t bytes() const;

  // k, v: [places, kv_heads, D], rows `stride` floats apart.
  void Store(std::span<const CachePlace> places, const float* k, const float* v, int64_t stride);
  // Copies positions [0, positions) of slot `from` to slot `to`.
  void CopyPrefix(int32_t from, int32_t to, int64_t positions);

  // out [places, heads, D] = softmax(q k^T / sqrt(D)) v, over the stored keys and values. Query
  // head h meets key head h / (heads / kv_heads). Consecutive places of one slot read its cache
  // together.
  void Attend(std::span<const CachePlace> places, int64_t heads, const float* q, int64_t q_stride,
              float* out, int64_t out_stride) const;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  int64_t KeyAt(int64_t slot, int64_t head) const;
  int64_t ValueAt(int64_t slot, int64_t head) const;
  template <typename Element>
  void StoreAll(std::span<const CachePlace> places, const float* k, const float* v, int64_t stride);
  template <typename Element>
  void AttendAll(std::span<const CachePlace> places, int64_t heads, const float* q,
                 int64_t q_stride, float* out, int64_t out_stride) const;

  Shape shape_;
  int64_t blocks_ = 0;  // of 16 positions
  int64_t wide_ = 0;    // D in whole vectors
  // Keys of a slot and head: [blocks, D, 16 positions], so that scores need no sums across a
  // vector. Values: [positions, wide_].
  std::unique_ptr<void, Free> keys_, values_;
};

}  // namespace nxdkit::trainer
