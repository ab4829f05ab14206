#include "lib/tensor/dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "lib/base/checked.h"

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
// torch's own short names, and those people write in configs and options.
constexpr Alias kAliases[] = {
    {"half", Dtype::kF16},     {"fp16", Dtype::kF16},   {"f16", Dtype::kF16},
    {"bf16", Dtype::kBF16},    {"float", Dtype::kF32},  {"fp32", Dtype::kF32},
    {"f32", Dtype::kF32},      {"double", Dtype::kF64}, {"fp64", Dtype::kF64},
    {"f64", Dtype::kF64},      {"short", Dtype::kI16},  {"int", Dtype::kI32},
    {"long", Dtype::kI64},     {"chalf", Dtype::kC32},  {"cfloat", Dtype::kC64},
    {"cdouble", Dtype::kC128},
};

}  // namespace

const DtypeInfo& Info(Dtype dtype) {
  NXDKIT_CHECK(static_cast<size_t>(dtype) < std::size(kTable));
  return kTable[static_cast<size_t>(dtype)];
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
    return Error(Errc::kCorrupt, fmt::format("shape {} has a negative dimension or more than "
                                             "2^63 - 1 elements",
                                             ShapeText(shape)));
  const auto bits =
      CheckedMul<uint64_t>(static_cast<uint64_t>(*count),
                           Info(dtype).bits % 8 == 0 ? Info(dtype).bits / 8 : Info(dtype).bits);
  if (!bits)
    return Error(Errc::kCorrupt, fmt::format("shape {} of {} has more than 2^64 - 1 bytes",
                                             ShapeText(shape), Name(dtype)));
  if (Info(dtype).bits % 8 == 0) return *bits;
  if (*bits % 8 != 0)
    return Error(Errc::kCorrupt, fmt::format("shape {} of {} has {} bits, expected a multiple of 8",
                                             ShapeText(shape), Name(dtype), *bits));
  return *bits / 8;
}

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    // As torch does it for empty tensors. Before a dimension of 0 the product may still overflow;
    // nothing is addressed with it then.
    (void)__builtin_mul_overflow(stride, std::max<int64_t>(shape[i], 1), &stride);
  }
  return strides;
}

std::string ShapeText(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace nxdkit
