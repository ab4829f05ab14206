// Products with packed weights and attention over a cache: right, and the same bits for a row with
// any other rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "tests/trainer/reference.h"
#include "trainer/comm/comm.h"
#include "trainer/kernels/kv_cache.h"
#include "trainer/kernels/packed_matrix.h"

namespace nxdkit::trainer {
namespace {

using reference::Matrix;
using reference::Take;
using Floats = std::vector<float>;

Floats Numbers(int64_t size, uint32_t seed) {
  Floats out;
  uint32_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < size; ++i) {
    state = state * 1664525u + 1013904223u;
    out.push_back(static_cast<float>(static_cast<int32_t>(state >> 8) - (1 << 23)) / (1 << 23));
  }
  return out;
}

std::vector<uint16_t> Narrowed(const Floats& wide) {
  std::vector<uint16_t> out(wide.size());
  ConvertElements(Dtype::kF32, reinterpret_cast<const std::byte*>(wide.data()), Dtype::kBF16,
                  reinterpret_cast<std::byte*>(out.data()), static_cast<int64_t>(wide.size()));
  return out;
}
Floats Rounded(const Floats& wide) {
  Floats out;
  for (const uint16_t bits : Narrowed(wide))
    out.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
  return out;
}

// Fails with the first place that is not near; NaN is near to nothing.
::testing::AssertionResult IsNear(const Matrix& found, const Matrix& expected, double tolerance) {
  for (int64_t i = 0; i < expected.rows(); ++i)
    for (int64_t j = 0; j < expected.cols(); ++j)
      if (!(std::abs(found(i, j) - expected(i, j)) <= tolerance))
        return ::testing::AssertionFailure() << "[" << i << ", " << j << "] is " << found(i, j)
                                             << ", expected " << expected(i, j);
  return ::testing::AssertionSuccess();
}

struct Size {
  int64_t n, k;
};

TEST(PackedMatrixTest, IsTheProduct) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16})
    for (const Size size : {Size{1, 1}, Size{64, 2}, Size{65, 33}, Size{200, 129}, Size{7, 300}}) {
      const Floats weights = Numbers(size.n * size.k, 1);
      const std::vector<uint16_t> narrow = Narrowed(weights);
      const void* data = dtype == Dtype::kF32 ? static_cast<const void*>(weights.data())
                                              : static_cast<const void*>(narrow.data());
      const auto packed = PackedMatrix::Make(size.n, size.k, {data, dtype, size.k, false});
      ASSERT_TRUE(packed.ok());
      const Floats& w = dtype == Dtype::kF32 ? weights : Rounded(weights);
      for (const int64_t m : {1, 2, 5, 6, 7, 13, 40}) {
        const int64_t a_stride = size.k + 3, c_stride = size.n + 2;
        Floats a = Numbers(m * a_stride, 2), c(static_cast<size_t>(m * c_stride), 77.0f);
        std::vector<uint16_t> scratch;
        packed->Multiply(m, a.data(), a_stride, c.data(), c_stride, scratch);
        if (dtype == Dtype::kBF16) a = Rounded(a);
        const Matrix expected =
            Take(a, 0, m, size.k, a_stride) * Take(w, 0, size.n, size.k, size.k).transpose();
        const Matrix found = Take(c, 0, m, c_stride, c_stride);
        ASSERT_TRUE(IsNear(found.leftCols(size.n), expected, 2e-5))
            << Name(dtype) << " " << m << " x " << size.n << " x " << size.k;
        ASSERT_TRUE((found.rightCols(2).array() == 77).all()) << "written past a row";
      }
    }
}

TEST(PackedMatrixTest, ARowHasTheSameBitsInAnyProduct) {
  ThreadWorld one(1, 1), three(1, 3);
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
    const int64_t n = 150, k = 77, rows = 29;
    const Floats weights = Numbers(n * k, 3), a = Numbers(rows * k, 4);
    const std::vector<uint16_t> narrow = Narrowed(weights);
    const void* data = dtype == Dtype::kF32 ? static_cast<const void*>(weights.data())
                                            : static_cast<const void*>(narrow.data());
    const auto packed = PackedMatrix::Make(n, k, {data, dtype, k, false});
    ASSERT_TRUE(packed.ok());
    std::vector<uint16_t> scratch;
    Floats all(rows * n), some(rows * n);
    packed->Multiply(rows, a.data(), k, all.data(), n, scratch);
    for (int64_t first = 0; first < rows; ++first)
      for (const int64_t count : {1, 2, 3, 4, 5, 6, 8}) {
        if (first + count > rows) continue;
        const Status done = (count % 2 ? one : three).Run([&](Comm&) -> Status {
          packed->Multiply(count, a.data() + first * k, k, some.data(), n, scratch);
          return OkStatus();
        });
        ASSERT_TRUE(done.ok());
        ASSERT_TRUE(std::equal(some.begin(), some.begin() + count * n, all.begin() + first * n))
            << Name(dtype) << " rows " << first << " + " << count;
      }
  }
}

struct CacheCase {
  int64_t heads, kv_heads, width;
  Dtype dtype;
  int64_t window = 0;
};
constexpr CacheCase kCases[] = {
    {4, 2, 8, Dtype::kF32},       {4, 2, 8, Dtype::kBF16},    {3, 3, 64, Dtype::kF32},
    {14, 2, 80, Dtype::kBF16},    {16, 2, 128, Dtype::kF32},  {6, 1, 4, Dtype::kBF16},
    {4, 2, 8, Dtype::kF32, 1},    {4, 2, 8, Dtype::kF32, 17}, {14, 2, 80, Dtype::kBF16, 20},
    {16, 2, 128, Dtype::kF32, 5}, {3, 3, 64, Dtype::kF32, 41}};

class Filled {
 public:
  static constexpr int64_t kPositions = 41;
  explicit Filled(const CacheCase& with) : with_(with) {
    auto made = KvCache::Make({.slots = 3,
                               .kv_heads = with.kv_heads,
                               .positions = kPositions,
                               .width = with.width,
                               .dtype = with.dtype,
                               .window = with.window});
    EXPECT_TRUE(made.ok());
    cache = *std::move(made);
    const int64_t stride = with.kv_heads * with.width;
    k = Numbers(kPositions * stride, 5);
    v = Numbers(kPositions * stride, 6);
    for (int32_t t = 0; t < kPositions; ++t) places.push_back({1, t});
    cache.Store(places, k.data(), v.data(), stride);
    q = Numbers(kPositions * with.heads * with.width, 7);
  }
  Floats Attend(size_t first, size_t count, int32_t slot = 1) const {
    const int64_t row = with_.heads * with_.width;
    std::vector<CachePlace> some(places.begin() + static_cast<ptrdiff_t>(first),
                                 places.begin() + static_cast<ptrdiff_t>(first + count));
    for (CachePlace& place : some) place.slot = slot;
    Floats out(count * static_cast<size_t>(row));
    cache.Attend(some, with_.heads, q.data() + static_cast<int64_t>(first) * row, row, out.data(),
                 row);
    return out;
  }
  KvCache cache;
  Floats q, k, v;
  std::vector<CachePlace> places;

 private:
  CacheCase with_;
};

TEST(KvCacheTest, AttendsToWhatIsThere) {
  for (const CacheCase& with : kCases) {
    const Filled filled(with);
    const Floats k = with.dtype == Dtype::kF32 ? filled.k : Rounded(filled.k);
    const Floats v = with.dtype == Dtype::kF32 ? filled.v : Rounded(filled.v);
    const Floats out = filled.Attend(0, Filled::kPositions);
    const auto head = [&](const Floats& all, int64_t h, int64_t heads) {
      return Take(all, h * with.width, Filled::kPositions, with.width, heads * with.width);
    };
    for (int64_t h = 0; h < with.heads; ++h) {
      const int64_t key = h / (with.heads / with.kv_heads);
      const Matrix expected =
          reference::Attention(head(filled.q, h, with.heads), head(k, key, with.kv_heads),
                               head(v, key, with.kv_heads), with.window);
      ASSERT_TRUE(IsNear(head(out, h, with.heads), expected, 2e-6))
          << with.heads << "/" << with.kv_heads << " head " << h;
    }
  }
}

TEST(KvCacheTest, ATokenHasTheSameBitsInAnyChunk) {
  for (const CacheCase& with : kCases) {
    const Filled filled(with);
    const size_t row = static_cast<size_t>(with.heads * with.width);
    const Floats whole = filled.Attend(0, Filled::kPositions);
    for (const size_t chunk : {1u, 2u, 7u, 16u})
      for (size_t first = 0; first < Filled::kPositions; first += chunk) {
        const size_t count = std::min<size_t>(chunk, Filled::kPositions - first);
        const Floats some = filled.Attend(first, count);
        ASSERT_TRUE(std::equal(some.begin(), some.end(),
                               whole.begin() + static_cast<ptrdiff_t>(first * row)))
            << "tokens " << first << " + " << count;
      }
  }
}

TEST(KvCacheTest, ACopiedPrefixIsTheSame) {
  for (const CacheCase& with : kCases) {
    Filled filled(with);
    filled.cache.CopyPrefix(1, 2, 19);
    EXPECT_EQ(filled.Attend(0, 19, 2), filled.Attend(0, 19));
  }
}

TEST(KvCacheTest, TooMuchMemoryIsAnError) {
  const auto made = KvCache::Make({.slots = int64_t{1} << 31,
                                   .kv_heads = int64_t{1} << 20,
                                   .positions = int64_t{1} << 31,
                                   .width = 128,
                                   .dtype = Dtype::kBF16});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), Errc::kLimit);
}

}  // namespace
}  // namespace nxdkit::trainer
