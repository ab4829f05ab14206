// Conversions compared with a reference without bit tricks: it scales by powers of two and lets
// nearbyint round to even.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "lib/tensor/dtype.h"

namespace nxdkit {
namespace {

struct Format {
  Dtype dtype;
  int mantissa_bits;
  int exponent_bits;
};
constexpr Format kF16 = {Dtype::kF16, 10, 5};
constexpr Format kBf16 = {Dtype::kBF16, 7, 8};
constexpr Format kF32 = {Dtype::kF32, 23, 8};
constexpr Format kF64 = {Dtype::kF64, 52, 11};

int Bias(const Format& f) { return (1 << (f.exponent_bits - 1)) - 1; }
uint64_t SignBit(const Format& f) { return uint64_t{1} << (f.mantissa_bits + f.exponent_bits); }
uint64_t InfinityBits(const Format& f) {
  return ((uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
}
bool IsNan(const Format& f, uint64_t bits) { return (bits & (SignBit(f) - 1)) > InfinityBits(f); }

// The value of bits that are not a NaN.
double Value(const Format& f, uint64_t bits) {
  if (f.mantissa_bits == 52) return std::bit_cast<double>(bits);
  const double sign = (bits & SignBit(f)) != 0 ? -1 : 1;
  const uint64_t magnitude = bits & (SignBit(f) - 1);
  if (magnitude == InfinityBits(f)) return sign * std::numeric_limits<double>::infinity();
  const auto exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  const uint64_t fraction = magnitude & ((uint64_t{1} << f.mantissa_bits) - 1);
  const uint64_t significand =
      exponent == 0 ? fraction : fraction + (uint64_t{1} << f.mantissa_bits);
  return sign * std::ldexp(static_cast<double>(significand),
                           std::max(exponent, 1) - Bias(f) - f.mantissa_bits);
}

// The bits nearest to a value that is not a NaN.
uint64_t Nearest(const Format& f, double value) {
  if (f.mantissa_bits == 52) return std::bit_cast<uint64_t>(value);
  const uint64_t sign = std::signbit(value) ? SignBit(f) : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | InfinityBits(f);
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude in [2^(exponent-1), 2^exponent)
  const int last_place = std::max(exponent - 1, 1 - Bias(f)) - f.mantissa_bits;
  const auto steps = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, -last_place)));
  // A carry out of the significand goes into the exponent, up to infinity.
  const uint64_t exponent_part = static_cast<uint64_t>(last_place + f.mantissa_bits - 1 + Bias(f));
  const uint64_t bits = (exponent_part << f.mantissa_bits) + steps;
  return sign | std::min(bits, InfinityBits(f));
}

// A NaN keeps its sign and its upper mantissa bits, and is quiet.
uint64_t ConvertedNan(const Format& from, const Format& to, uint64_t bits) {
  const uint64_t fraction = bits & ((uint64_t{1} << from.mantissa_bits) - 1);
  const int shift = to.mantissa_bits - from.mantissa_bits;
  const uint64_t kept = shift >= 0 ? fraction << shift : fraction >> -shift;
  const uint64_t sign = (bits & SignBit(from)) != 0 ? SignBit(to) : 0;
  return sign | InfinityBits(to) | kept | uint64_t{1} << (to.mantissa_bits - 1);
}

uint64_t Expected(const Format& from, const Format& to, uint64_t bits) {
  if (IsNan(from, bits)) return ConvertedNan(from, to, bits);
  return Nearest(to, Value(from, bits));
}

size_t Bytes(const Format& f) { return static_cast<size_t>(ElementBytes(f.dtype)); }

// Collects bit patterns, converts them in blocks, and compares each with the reference.
class Checker {
 public:
  Checker(const Format& from, const Format& to) : from_(from), to_(to) {}
  ~Checker() {
    Flush();
    EXPECT_GT(total_, 0u);
  }

  void Check(uint64_t bits) {
    patterns_.push_back(bits);
    if (patterns_.size() == 4096) Flush();
  }

 private:
  void Flush() {
    std::vector<std::byte> in(patterns_.size() * Bytes(from_));
    std::vector<std::byte> out(patterns_.size() * Bytes(to_));
    for (size_t i = 0; i < patterns_.size(); ++i)
      std::memcpy(in.data() + i * Bytes(from_), &patterns_[i], Bytes(from_));
    ConvertElements(from_.dtype, in.data(), to_.dtype, out.data(),
                    static_cast<int64_t>(patterns_.size()));
    for (size_t i = 0; i < patterns_.size() && failures_ < 10; ++i) {
      uint64_t found = 0;
      std::memcpy(&found, out.data() + i * Bytes(to_), Bytes(to_));
      const uint64_t expected = Expected(from_, to_, patterns_[i]);
      if (found == expected) continue;
      ++failures_;
      ADD_FAILURE() << Name(from_.dtype) << " 0x" << std::hex << patterns_[i] << " to "
                    << Name(to_.dtype) << ": found 0x" << found << ", expected 0x" << expected;
    }
    total_ += patterns_.size();
    patterns_.clear();
  }

  const Format from_;
  const Format to_;
  std::vector<uint64_t> patterns_;
  uint64_t total_ = 0;
  int failures_ = 0;
};

// The reference itself, on values known from the IEEE tables.
TEST(Reference, KnownValues) {
  EXPECT_EQ(Value(kF16, 0x3c01), 1 + 0x1p-10);
  EXPECT_EQ(Value(kF16, 0x0001), 0x1p-24);
  EXPECT_EQ(Value(kF16, 0xfbff), -65504);
  EXPECT_EQ(Nearest(kF16, 65519.99), 0x7bffu);
  EXPECT_EQ(Nearest(kF16, 65520), 0x7c00u);
  EXPECT_EQ(Nearest(kF16, 0x1p-25), 0u);
  EXPECT_EQ(Nearest(kF16, 0x1.8p-24), 2u);
  EXPECT_EQ(Nearest(kBf16, 1 + 0x1p-8), 0x3f80u);
  EXPECT_EQ(Nearest(kBf16, 1 + 3 * 0x1p-8), 0x3f82u);
  EXPECT_EQ(Nearest(kF32, -0.0), 0x80000000u);
  for (uint32_t bits : {0x00000001u, 0x007fffffu, 0x00800000u, 0x7f7fffffu, 0x3dcccccdu})
    EXPECT_EQ(Nearest(kF32, std::bit_cast<float>(bits)), bits);
}

TEST(ConvertElements, EverySixteenBitPattern) {
  for (const Format& from : {kF16, kBf16})
    for (const Format& to : {kF16, kBf16, kF32, kF64}) {
      if (from.dtype == to.dtype) continue;
      Checker checker(from, to);
      for (uint64_t bits = 0; bits < 65536; ++bits) checker.Check(bits);
    }
}

TEST(ConvertElements, EveryF32SubnormalToBf16) {
  Checker checker(kF32, kBf16);
  for (uint64_t fraction = 0; fraction <= 0x800000; ++fraction) {
    checker.Check(fraction);
    checker.Check(fraction | 0x80000000);
  }
}

// 2^24 patterns over the whole range, NaNs among them.
TEST(ConvertElements, DenseSampleOfF32) {
  Checker to_bf16(kF32, kBf16);
  Checker to_f16(kF32, kF16);
  for (uint64_t i = 0; i < (uint64_t{1} << 24); ++i) {
    const uint64_t bits = (i << 8) | (i * 0x9e3779b1 >> 24 & 0xff);
    to_bf16.Check(bits);
    if (i % 4 == 0) to_f16.Check(bits);
  }
}

// Each tie between two neighbours, and its own neighbours.
TEST(ConvertElements, TiesOfF32) {
  Checker to_bf16(kF32, kBf16);
  Checker to_f16(kF32, kF16);
  for (uint64_t high = 0; high < 65536; ++high)
    for (const uint64_t low : {0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xffff})
      to_bf16.Check(high << 16 | low);
  for (uint64_t high = 0; high < (uint64_t{1} << 20); ++high)
    for (const uint64_t low : {0x000, 0x001, 0x7ff, 0x800, 0x801, 0xfff})
      to_f16.Check(high << 12 | low);
}

// A double next to a tie rounds to the tie in F32, and may then go the wrong way.
TEST(ConvertElements, F64DoesNotRoundTwice) {
  for (const Format& to : {kF16, kBf16}) {
    Checker checker(kF64, to);
    for (uint64_t bits = 0; bits < InfinityBits(to); ++bits) {
      const double low = Value(to, bits);
      const double high =
          bits + 1 == InfinityBits(to) ? 2 * low - Value(to, bits - 1) : Value(to, bits + 1);
      const double tie = low + (high - low) / 2;
      for (const double value : {low, tie, std::nextafter(tie, 0), std::nextafter(tie, 1e300)}) {
        checker.Check(std::bit_cast<uint64_t>(value));
        checker.Check(std::bit_cast<uint64_t>(-value));
      }
    }
  }
}

TEST(ConvertElements, F64Sample) {
  for (const Format& to : {kF16, kBf16, kF32}) {
    Checker checker(kF64, to);
    uint64_t state = 1;
    for (int i = 0; i < 1 << 20; ++i) {
      state = state * 6364136223846793005 + 1442695040888963407;
      checker.Check(state);  // all exponents: mostly overflow and underflow
      // The exponents that matter: 2^-160 to 2^135.
      const uint64_t exponent = 1023 - 160 + (state >> 32) % 295;
      checker.Check((state & 0x800fffffffffffff) | exponent << 52);
    }
    for (const double value : {0.0, 5e-324, 0x1p-150, 0x1.8p-149, 0x1p-134, 0x1.fffffefffffffp127,
                               0x1.ffffffp127, 1e300, std::numeric_limits<double>::infinity()})
      checker.Check(std::bit_cast<uint64_t>(-value));
  }
  Checker widen(kF32, kF64);
  for (uint64_t i = 0; i < (1 << 20); ++i) widen.Check(i << 12 | (i & 0xfff));
}

struct NanRow {
  Format from;
  Format to;
  uint64_t bits;
  uint64_t expected;
};

TEST(ConvertElements, NansByHand) {
  const NanRow rows[] = {
      {kF32, kBf16, 0x7f800001, 0x7fc0},  // the payload is in the lost bits: not an infinity
      {kF32, kBf16, 0xff8abcde, 0xffca},         {kF32, kF16, 0x7f800001, 0x7e00},
      {kF32, kF16, 0xffffffff, 0xffff},          {kBf16, kF32, 0x7f81, 0x7fc10000},
      {kF16, kF32, 0xfc01, 0xffc02000},          {kF64, kF32, 0x7ff0000000000001, 0x7fc00000},
      {kF64, kBf16, 0xfff0000000000001, 0xffc0}, {kF32, kF64, 0x7fa00000, 0x7ffc000000000000},
  };
  for (const NanRow& row : rows) {
    uint64_t found = 0;
    ConvertElements(row.from.dtype, reinterpret_cast<const std::byte*>(&row.bits), row.to.dtype,
                    reinterpret_cast<std::byte*>(&found), 1);
    EXPECT_EQ(found, row.expected) << std::hex << row.bits;
  }
}

// Any length, any alignment: the vector loop, its remainder, and not one byte more.
TEST(ConvertElements, UnalignedAndShort) {
  for (const Format& from : {kF16, kBf16, kF32, kF64})
    for (const Format& to : {kF16, kBf16, kF32, kF64})
      for (size_t count = 0; count <= 70; ++count) {
        std::vector<std::byte> in(1 + count * Bytes(from));
        for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i * 37 + 5);
        std::vector<std::byte> out(1 + count * Bytes(to) + 3, std::byte{0xee});
        ConvertElements(from.dtype, in.data() + 1, to.dtype, out.data() + 1,
                        static_cast<int64_t>(count));
        for (size_t i = 0; i < count; ++i) {
          uint64_t bits = 0;
          uint64_t found = 0;
          std::memcpy(&bits, in.data() + 1 + i * Bytes(from), Bytes(from));
          std::memcpy(&found, out.data() + 1 + i * Bytes(to), Bytes(to));
          const uint64_t expected = from.dtype == to.dtype ? bits : Expected(from, to, bits);
          ASSERT_EQ(found, expected) << Name(from.dtype) << " to " << Name(to.dtype) << " element "
                                     << i << " of " << count;
        }
        ASSERT_EQ(out[0], std::byte{0xee});
        for (size_t i = 1 + count * Bytes(to); i < out.size(); ++i)
          ASSERT_EQ(out[i], std::byte{0xee});
      }
}

}  // namespace
}  // namespace nxdkit
