#include "lib/tensor/dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/base/simd.h"

namespace nxdkit {
namespace {

// In enum order. Bits and spellings: safetensors 0.8 and torch 2.x; torch has no 6-bit types.
constexpr DtypeInfo kTable[] = {
    {Dtype::kBool, "BOOL", "bool", 8, 1, false},
    {Dtype::kF4, "F4", "float4_e2m1fn_x2", 4, 1, false},
    {Dtype::kF6E2M3, "F6_E2M3", "", 6, 1, false},
    {Dtype::kF6E3M2, "F6_E3M2", "", 6, 1, false},
    {Dtype::kU8, "U8", "uint8", 8, 1, false},
    {Dtype::kI8, "I8", "int8", 8, 1, false},
    {Dtype::kF8E5M2, "F8_E5M2", "float8_e5m2", 8, 1, false},
    {Dtype::kF8E4M3, "F8_E4M3", "float8_e4m3fn", 8, 1, false},
    {Dtype::kF8E8M0, "F8_E8M0", "float8_e8m0fnu", 8, 1, false},
    {Dtype::kF8E4M3Fnuz, "F8_E4M3FNUZ", "float8_e4m3fnuz", 8, 1, false},
    {Dtype::kF8E5M2Fnuz, "F8_E5M2FNUZ", "float8_e5m2fnuz", 8, 1, false},
    {Dtype::kI16, "I16", "int16", 16, 2, false},
    {Dtype::kU16, "U16", "uint16", 16, 2, false},
    {Dtype::kF16, "F16", "float16", 16, 2, true},
    {Dtype::kBF16, "BF16", "bfloat16", 16, 2, true},
    {Dtype::kI32, "I32", "int32", 32, 4, false},
    {Dtype::kU32, "U32", "uint32", 32, 4, false},
    {Dtype::kF32, "F32", "float32", 32, 4, true},
    {Dtype::kC64, "C64", "complex64", 64, 4, false},
    {Dtype::kF64, "F64", "float64", 64, 8, true},
    {Dtype::kI64, "I64", "int64", 64, 8, false},
    {Dtype::kU64, "U64", "uint64", 64, 8, false},
    {Dtype::kC32, "C32", "complex32", 32, 2, false},
    {Dtype::kC128, "C128", "complex128", 128, 8, false},
};

constexpr bool TableIsInEnumOrder() {
  for (size_t i = 0; i < std::size(kTable); ++i)
    if (static_cast<size_t>(kTable[i].dtype) != i) return false;
  return std::size(kTable) == kDtypeCount;
}
static_assert(TableIsInEnumOrder());

struct Alias {
  std::string_view name;
  Dtype dtype;
};
// torch's own short names, and those that people write in configs and options.
constexpr Alias kAliases[] = {
    {"half", Dtype::kF16},     {"fp16", Dtype::kF16},   {"f16", Dtype::kF16},
    {"bf16", Dtype::kBF16},    {"float", Dtype::kF32},  {"fp32", Dtype::kF32},
    {"f32", Dtype::kF32},      {"double", Dtype::kF64}, {"fp64", Dtype::kF64},
    {"f64", Dtype::kF64},      {"short", Dtype::kI16},  {"int", Dtype::kI32},
    {"long", Dtype::kI64},     {"chalf", Dtype::kC32},  {"cfloat", Dtype::kC64},
    {"cdouble", Dtype::kC128},
};

template <typename T>
inline T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
inline void Store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

inline uint16_t Bf16FromF32(uint32_t bits) {
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

inline uint32_t F32FromBf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  return (bits & 0x7fff) > 0x7f80 ? wide | 0x400000 : wide;
}

inline uint32_t F32FromF16(uint16_t half) {
  constexpr uint32_t kRebias = (127 - 15) << 23;
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half & 0x7c00;
  const uint32_t shifted = static_cast<uint32_t>(half & 0x7fff) << 13;
  const uint32_t normal = shifted + kRebias;
  const uint32_t infinite = shifted | 0x7f800000;
  const uint32_t quiet_nan = infinite | 0x400000;
  // Subnormal m * 2^-24: as the fraction of 2^-14 * (1 + m / 2^10), less 2^-14. Exact.
  constexpr uint32_t kSmallestNormal = (127 - 14) << 23;
  const uint32_t subnormal = std::bit_cast<uint32_t>(
      std::bit_cast<float>(shifted | kSmallestNormal) - std::bit_cast<float>(kSmallestNormal));
  uint32_t magnitude = exponent == 0 ? subnormal : normal;
  magnitude = exponent == 0x7c00 ? ((half & 0x3ff) != 0 ? quiet_nan : infinite) : magnitude;
  return sign | magnitude;
}

inline uint16_t F16FromF32(uint32_t bits) {
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  constexpr uint32_t kRebias = (127 - 15) << 23;
  const uint32_t normal = (magnitude - kRebias + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Below 2^-14: adding 0.5, whose last place is 2^-24, makes the adder round to the subnormals.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
                             std::bit_cast<uint32_t>(0.5f);
  const uint32_t quiet_nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  uint32_t half = magnitude < 0x38800000 ? subnormal : normal;
  half = magnitude >= 0x477ff000 ? 0x7c00 : half;  // 65520 and more round to infinity
  half = magnitude > 0x7f800000 ? quiet_nan : half;
  return static_cast<uint16_t>(sign | half);
}

// The processor keeps the sign and the upper mantissa bits of a NaN, and sets the quiet bit.
inline uint64_t F64FromF32(uint32_t bits) {
  return std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(bits)));
}
inline uint32_t F32FromF64(uint64_t bits) {
  return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
}

// F64 to F32 with the last bit set if anything was lost: a second rounding to 16 bits then sees
// that the value was not a tie, so the two together round once.
inline uint32_t F32FromF64ToOdd(uint64_t bits) {
  const double value = std::bit_cast<double>(bits);
  const float nearest = static_cast<float>(value);
  const uint32_t near_bits = std::bit_cast<uint32_t>(nearest);
  const double back = static_cast<double>(nearest);
  const bool exact = back == value || value != value;
  if (exact || (near_bits & 1) != 0) return near_bits;
  return std::fabs(back) > std::fabs(value) ? near_bits - 1 : near_bits + 1;
}

using In = const std::byte* __restrict;
using Out = std::byte* __restrict;

NXDKIT_CLONES void F32ToBf16(In from, Out to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) Store(to + 2 * i, Bf16FromF32(Load<uint32_t>(from + 4 * i)));
}

NXDKIT_CLONES void Bf16ToF32(In from, Out to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) Store(to + 4 * i, F32FromBf16(Load<uint16_t>(from + 2 * i)));
}

NXDKIT_CLONES void F32ToF16(In from, Out to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) Store(to + 2 * i, F16FromF32(Load<uint32_t>(from + 4 * i)));
}

NXDKIT_CLONES void F16ToF32(In from, Out to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) Store(to + 4 * i, F32FromF16(Load<uint16_t>(from + 2 * i)));
}

NXDKIT_CLONES void F32ToF64(In from, Out to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) Store(to + 8 * i, F64FromF32(Load<uint32_t>(from + 4 * i)));
}

NXDKIT_CLONES void F64ToF32(In from, Out to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) Store(to + 4 * i, F32FromF64(Load<uint64_t>(from + 8 * i)));
}

NXDKIT_CLONES void F64ToF32ToOdd(In from, Out to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    Store(to + 4 * i, F32FromF64ToOdd(Load<uint64_t>(from + 8 * i)));
}

using Converter = void (*)(const std::byte* from, std::byte* to, int64_t count);

// Two steps with F32 between, a block at a time: the first is exact, or rounds to odd.
template <Converter First, int kFromBytes, Converter Second, int kToBytes>
void ThroughF32(const std::byte* from, std::byte* to, int64_t count) {
  constexpr int64_t kBlock = 1024;
  std::byte block[kBlock * 4];
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t n = std::min(kBlock, count - i);
    First(from + i * kFromBytes, block, n);
    Second(block, to + i * kToBytes, n);
  }
}

struct ConverterRow {
  Dtype from;
  Dtype to;
  Converter convert;
};
constexpr ConverterRow kConverters[] = {
    {Dtype::kF32, Dtype::kBF16, F32ToBf16},
    {Dtype::kBF16, Dtype::kF32, Bf16ToF32},
    {Dtype::kF32, Dtype::kF16, F32ToF16},
    {Dtype::kF16, Dtype::kF32, F16ToF32},
    {Dtype::kF32, Dtype::kF64, F32ToF64},
    {Dtype::kF64, Dtype::kF32, F64ToF32},
    {Dtype::kF16, Dtype::kBF16, ThroughF32<F16ToF32, 2, F32ToBf16, 2>},
    {Dtype::kBF16, Dtype::kF16, ThroughF32<Bf16ToF32, 2, F32ToF16, 2>},
    {Dtype::kF16, Dtype::kF64, ThroughF32<F16ToF32, 2, F32ToF64, 8>},
    {Dtype::kBF16, Dtype::kF64, ThroughF32<Bf16ToF32, 2, F32ToF64, 8>},
    {Dtype::kF64, Dtype::kF16, ThroughF32<F64ToF32ToOdd, 8, F32ToF16, 2>},
    {Dtype::kF64, Dtype::kBF16, ThroughF32<F64ToF32ToOdd, 8, F32ToBf16, 2>},
};

// An 8-bit float with `mantissa_bits`; special values are handled before.
double SmallFloat(uint8_t bits, int mantissa_bits, int bias) {
  const int magnitude = bits & 0x7f;
  const int exponent = magnitude >> mantissa_bits;
  const int fraction = magnitude & ((1 << mantissa_bits) - 1);
  const int significand = exponent == 0 ? fraction : fraction | (1 << mantissa_bits);
  const double value = std::ldexp(significand, std::max(exponent, 1) - bias - mantissa_bits);
  return (bits & 0x80) != 0 ? -value : value;
}

}  // namespace

const DtypeInfo& Info(Dtype dtype) {
  NXDKIT_CHECK(static_cast<size_t>(dtype) < std::size(kTable));
  return kTable[static_cast<size_t>(dtype)];
}

Dtype Downcast(Dtype dtype) {
  if (dtype == Dtype::kF32) return Dtype::kBF16;
  return dtype == Dtype::kF64 ? Dtype::kF32 : dtype;
}

int64_t ElementBytes(Dtype dtype) { return Info(dtype).bits / 8; }

std::optional<Dtype> DtypeFromName(std::string_view safetensors_name) {
  for (const DtypeInfo& info : kTable)
    if (safetensors_name == info.name) return info.dtype;
  return std::nullopt;
}

std::optional<Dtype> DtypeFromTorchName(std::string_view torch_name) {
  constexpr std::string_view kPrefix = "torch.";
  if (torch_name.substr(0, kPrefix.size()) == kPrefix) torch_name.remove_prefix(kPrefix.size());
  if (torch_name.empty()) return std::nullopt;
  for (const DtypeInfo& info : kTable)
    if (torch_name == info.torch_name) return info.dtype;
  for (const Alias& alias : kAliases)
    if (torch_name == alias.name) return alias.dtype;
  return std::nullopt;
}

namespace {

std::optional<Dtype> DtypeFromAnyName(std::string_view name) {
  std::string lower(name), upper(name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  const std::optional<Dtype> dtype = DtypeFromTorchName(lower);
  return dtype ? dtype : DtypeFromName(upper);
}

}  // namespace

std::string WordOfDtype(std::string_view name, std::span<const std::string> words) {
  const std::optional<Dtype> dtype = DtypeFromAnyName(name);
  if (dtype)
    for (const std::string& word : words)
      if (DtypeFromAnyName(word) == dtype) return word;
  return std::string(name);
}

std::optional<int64_t> ElementCount(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    const std::optional<int64_t> product = CheckedMul(count, dim);
    if (!product) return std::nullopt;
    count = *product;
  }
  return count;
}

Result<uint64_t> PackedBytes(Dtype dtype, const Shape& shape) {
  const std::optional<int64_t> count = ElementCount(shape);
  if (!count)
    return Corrupt("shape {} has a negative dimension or more than 2^63 - 1 elements",
                   ShapeText(shape));
  const auto bits =
      CheckedMul<uint64_t>(static_cast<uint64_t>(*count),
                           Info(dtype).bits % 8 == 0 ? Info(dtype).bits / 8 : Info(dtype).bits);
  if (!bits)
    return Corrupt("shape {} of {} has more than 2^64 - 1 bytes", ShapeText(shape), Name(dtype));
  if (Info(dtype).bits % 8 == 0) return *bits;
  if (*bits % 8 != 0)
    return Corrupt("shape {} of {} has {} bits, expected a multiple of 8", ShapeText(shape),
                   Name(dtype), *bits);
  return *bits / 8;
}

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    // As torch computes them for empty tensors. Before a dimension of 0 the product may still
    // overflow; nothing is addressed with it then.
    (void)__builtin_mul_overflow(stride, std::max<int64_t>(shape[i], 1), &stride);
  }
  return strides;
}

std::string ShapeText(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// All narrowing is done on the bits: the conversion instructions of AVX512-BF16 flush subnormal
// inputs to zero.
bool Convertible(Dtype from, Dtype to) {
  return from == to || (Info(from).floating && Info(to).floating);
}

void ConvertElements(Dtype from_dtype, const std::byte* from, Dtype to_dtype, std::byte* to,
                     int64_t count) {
  NXDKIT_CHECK(Info(from_dtype).floating && Info(to_dtype).floating && count >= 0);
  if (count == 0) return;
  if (from_dtype == to_dtype) {
    std::memmove(to, from, static_cast<size_t>(count * ElementBytes(from_dtype)));
    return;
  }
  for (const ConverterRow& row : kConverters)
    if (row.from == from_dtype && row.to == to_dtype) return row.convert(from, to, count);
  NXDKIT_CHECK(false);
}

double ElementAsDouble(Dtype dtype, const std::byte* element) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto bits = Load<uint8_t>(element);
  switch (dtype) {
    case Dtype::kBool:
      return bits != 0 ? 1 : 0;
    case Dtype::kU8:
      return bits;
    case Dtype::kI8:
      return Load<int8_t>(element);
    case Dtype::kI16:
      return Load<int16_t>(element);
    case Dtype::kU16:
      return Load<uint16_t>(element);
    case Dtype::kI32:
      return Load<int32_t>(element);
    case Dtype::kU32:
      return Load<uint32_t>(element);
    case Dtype::kI64:
      return static_cast<double>(Load<int64_t>(element));
    case Dtype::kU64:
      return static_cast<double>(Load<uint64_t>(element));
    case Dtype::kF16:
    case Dtype::kC32:
      return std::bit_cast<float>(F32FromF16(Load<uint16_t>(element)));
    case Dtype::kBF16:
      return std::bit_cast<float>(F32FromBf16(Load<uint16_t>(element)));
    case Dtype::kF32:
    case Dtype::kC64:
      return Load<float>(element);
    case Dtype::kF64:
    case Dtype::kC128:
      return Load<double>(element);
    case Dtype::kF8E5M2:  // as IEEE: the top exponent is infinity and NaN
      if ((bits & 0x7c) != 0x7c) return SmallFloat(bits, 2, 15);
      if ((bits & 0x03) != 0) return kNan;
      return (bits & 0x80) != 0 ? -kInfinity : kInfinity;
    case Dtype::kF8E4M3:
      return (bits & 0x7f) == 0x7f ? kNan : SmallFloat(bits, 3, 7);
    case Dtype::kF8E4M3Fnuz:
      return bits == 0x80 ? kNan : SmallFloat(bits, 3, 8);
    case Dtype::kF8E5M2Fnuz:
      return bits == 0x80 ? kNan : SmallFloat(bits, 2, 16);
    case Dtype::kF8E8M0:
      return bits == 0xff ? kNan : std::ldexp(1.0, bits - 127);
    case Dtype::kF4:
    case Dtype::kF6E2M3:
    case Dtype::kF6E3M2:
      break;
  }
  return kNan;  // sub-byte elements have no address of their own
}

void SwapBytes(std::span<std::byte> bytes, int unit) {
  NXDKIT_CHECK(unit == 1 || unit == 2 || unit == 4 || unit == 8);
  NXDKIT_CHECK(bytes.size() % static_cast<size_t>(unit) == 0);
  std::byte* at = bytes.data();
  std::byte* const end = at + bytes.size();
  if (unit == 2)
    for (; at != end; at += 2) Store(at, __builtin_bswap16(Load<uint16_t>(at)));
  if (unit == 4)
    for (; at != end; at += 4) Store(at, __builtin_bswap32(Load<uint32_t>(at)));
  if (unit == 8)
    for (; at != end; at += 8) Store(at, __builtin_bswap64(Load<uint64_t>(at)));
}

}  // namespace nxdkit
