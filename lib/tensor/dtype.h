// Element types of tensors: the 22 of safetensors 0.8, then those that only torch has.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit {

// The order of the first 22 is the ascending order of safetensors' own Dtype enum; its writer sorts
// tensors by this order, descending. Do not reorder.
enum class Dtype : uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
  // torch only; a safetensors file cannot hold them.
  kC32,
  kC128,
};
inline constexpr int kDtypeCount = 24;
inline constexpr int kSafetensorsDtypeCount = 22;

struct DtypeInfo {
  Dtype dtype;
  const char* name;        // safetensors spelling: "BF16"
  const char* torch_name;  // torch.<name>, also in HF configs: "bfloat16"; "" if torch has none
  int bits;                // per element
  int swap_bytes;          // unit of byte swapping: 4 for F32 and C64, 1 for bytes
  bool floating;           // real floating point of 16 bits or more: convertible by ConvertElements
};

const DtypeInfo& Info(Dtype dtype);
inline std::string_view Name(Dtype dtype) { return Info(dtype).name; }
// The type that XLA_DOWNCAST_BF16 puts on the device: F32 -> BF16, F64 -> F32; others stay.
Dtype Downcast(Dtype dtype);
inline std::string_view TorchName(Dtype dtype) { return Info(dtype).torch_name; }
int64_t ElementBytes(Dtype dtype);  // 0 for the sub-byte types F4 and F6

std::optional<Dtype> DtypeFromName(std::string_view safetensors_name);
std::optional<Dtype> DtypeFromTorchName(std::string_view torch_name);  // "bfloat16", "half"...
// The first of `words` that names the same element type as `name`, each in any of the spellings
// above and in either case: "bf16" of "torch.bfloat16" and of "BF16"; `name` if there is none.
std::string WordOfDtype(std::string_view name, std::span<const std::string> words);

using Shape = std::vector<int64_t>;

// The number of elements; nullopt on a negative dimension or overflow of int64.
std::optional<int64_t> ElementCount(const Shape& shape);
// The bytes of a packed tensor; kCorrupt on overflow or if sub-byte elements do not fill whole
// bytes.
Result<uint64_t> PackedBytes(Dtype dtype, const Shape& shape);
// Row-major strides in elements. The product must not overflow (PackedBytes has been called).
Shape RowMajorStrides(const Shape& shape);
std::string ShapeText(const Shape& shape);  // "[4096, 128]"

// Exact conversions between F16, BF16, F32 and F64: widening is exact, narrowing rounds to nearest
// even, infinities and signed zeros stay, a NaN stays a NaN and keeps its sign (quieted when it
// is narrowed or widened; the upper mantissa bits are kept). Subnormals are kept, never flushed.
// `from` and `to` need no alignment and do not overlap. Both dtypes must be floating.
void ConvertElements(Dtype from_dtype, const std::byte* from, Dtype to_dtype, std::byte* to,
                     int64_t count);
bool Convertible(Dtype from, Dtype to);  // equal, or both floating

// One element widened to double. Complex types give the real part; sub-byte types (no address) NaN.
double ElementAsDouble(Dtype dtype, const std::byte* element);

void SwapBytes(std::span<std::byte> bytes, int unit);  // each unit is reversed in place

}  // namespace nxdkit
