#include "lib/tensor/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using testing_util::ExpectError;

std::vector<Dtype> AllDtypes() {
  std::vector<Dtype> all;
  for (int i = 0; i < kDtypeCount; ++i) all.push_back(static_cast<Dtype>(i));
  return all;
}

// The order of the reference's enum, which is the order of its writer.
TEST(Dtype, NamesInTheOrderOfSafetensors) {
  const char* names[] = {"BOOL",    "F4",      "F6_E2M3", "F6_E3M2",     "U8",          "I8",
                         "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16",
                         "U16",     "F16",     "BF16",    "I32",         "U32",         "F32",
                         "C64",     "F64",     "I64",     "U64"};
  ASSERT_EQ(std::size(names), static_cast<size_t>(kSafetensorsDtypeCount));
  for (int i = 0; i < kSafetensorsDtypeCount; ++i) {
    EXPECT_EQ(Name(static_cast<Dtype>(i)), names[i]);
    EXPECT_EQ(DtypeFromName(names[i]), static_cast<Dtype>(i));
  }
}

TEST(Dtype, NamesAreUniqueAndRoundTrip) {
  std::set<std::string_view> names;
  for (const Dtype dtype : AllDtypes()) {
    EXPECT_TRUE(names.insert(Name(dtype)).second) << Name(dtype);
    if (TorchName(dtype).empty()) continue;
    EXPECT_EQ(DtypeFromTorchName(TorchName(dtype)), dtype);
  }
}

TEST(Dtype, TorchAliases) {
  const std::pair<const char*, Dtype> rows[] = {{"half", Dtype::kF16},
                                                {"float", Dtype::kF32},
                                                {"double", Dtype::kF64},
                                                {"long", Dtype::kI64},
                                                {"int", Dtype::kI32},
                                                {"short", Dtype::kI16},
                                                {"bf16", Dtype::kBF16},
                                                {"fp16", Dtype::kF16},
                                                {"f16", Dtype::kF16},
                                                {"f32", Dtype::kF32},
                                                {"torch.bfloat16", Dtype::kBF16},
                                                {"torch.half", Dtype::kF16}};
  for (const auto& [name, dtype] : rows) EXPECT_EQ(DtypeFromTorchName(name), dtype) << name;
}

TEST(Dtype, AWordIsKnownByAnyOfItsNames) {
  const std::vector<std::string> words = {"f32", "bf16"};
  for (const char* name : {"bf16", "bfloat16", "torch.bfloat16", "BF16", "BFloat16"})
    EXPECT_EQ(WordOfDtype(name, words), "bf16") << name;
  for (const char* name : {"F32", "fp32", "FP32", "float"})
    EXPECT_EQ(WordOfDtype(name, words), "f32") << name;
  EXPECT_EQ(WordOfDtype("fp16", words), "fp16");
  EXPECT_EQ(WordOfDtype("Auto", words), "Auto");
  EXPECT_EQ(WordOfDtype("float8_e4m3fn", std::vector<std::string>{"F8_E4M3"}), "F8_E4M3");
}

TEST(Dtype, UnknownNames) {
  for (const char* name : {"", "torch.", "BF16", "float128", "torch.torch.half", "Half"})
    EXPECT_EQ(DtypeFromTorchName(name), std::nullopt) << name;
  for (const char* name : {"", "bf16", "F8_E4M3FN", "C128 ", "I4"})
    EXPECT_EQ(DtypeFromName(name), std::nullopt) << name;
}

TEST(Dtype, BytesAndSwapUnits) {
  for (const Dtype dtype : AllDtypes()) {
    const DtypeInfo& info = Info(dtype);
    EXPECT_EQ(ElementBytes(dtype), info.bits < 8 ? 0 : info.bits / 8) << info.name;
    EXPECT_LE(info.swap_bytes * 8, std::max(info.bits, 8)) << info.name;
  }
  EXPECT_EQ(Info(Dtype::kC64).swap_bytes, 4);
  EXPECT_EQ(Info(Dtype::kC128).swap_bytes, 8);
  EXPECT_EQ(Info(Dtype::kC32).swap_bytes, 2);
  EXPECT_EQ(Info(Dtype::kF8E5M2).swap_bytes, 1);
}

TEST(Dtype, OnlyRealFloatsConvert) {
  const std::set<Dtype> floats = {Dtype::kF16, Dtype::kBF16, Dtype::kF32, Dtype::kF64};
  for (const Dtype from : AllDtypes())
    for (const Dtype to : AllDtypes())
      EXPECT_EQ(Convertible(from, to), from == to || (floats.count(from) && floats.count(to)));
}

TEST(Dtype, DowncastLowersTwoOfThem) {
  for (int i = 0; i < kDtypeCount; ++i) {
    const Dtype dtype = static_cast<Dtype>(i);
    const Dtype lower = dtype == Dtype::kF32   ? Dtype::kBF16
                        : dtype == Dtype::kF64 ? Dtype::kF32
                                               : dtype;
    EXPECT_EQ(Downcast(dtype), lower) << Name(dtype);
  }
}

TEST(Shape, ElementCount) {
  EXPECT_EQ(ElementCount({}), 1);
  EXPECT_EQ(ElementCount({3, 4}), 12);
  EXPECT_EQ(ElementCount({3, 0, INT64_MAX}), 0);
  EXPECT_EQ(ElementCount({3, -1}), std::nullopt);
  EXPECT_EQ(ElementCount({INT64_MAX, 2}), std::nullopt);
  // Left to right, as the reference multiplies: an overflow before the zero is one.
  EXPECT_EQ(ElementCount({INT64_MAX, 2, 0}), std::nullopt);
}

TEST(Shape, PackedBytes) {
  EXPECT_EQ(*PackedBytes(Dtype::kBF16, {3, 5}), 30u);
  EXPECT_EQ(*PackedBytes(Dtype::kF64, {}), 8u);
  EXPECT_EQ(*PackedBytes(Dtype::kF4, {3, 2}), 3u);
  EXPECT_EQ(*PackedBytes(Dtype::kF6E2M3, {4}), 3u);
  EXPECT_EQ(*PackedBytes(Dtype::kF4, {0, 3}), 0u);
  EXPECT_EQ(*PackedBytes(Dtype::kU8, {INT64_MAX}), static_cast<uint64_t>(INT64_MAX));
  ExpectError(PackedBytes(Dtype::kF4, {3}), Errc::kCorrupt, "[3] of F4 has 12 bits");
  ExpectError(PackedBytes(Dtype::kF6E3M2, {2}), Errc::kCorrupt, "[2] of F6_E3M2 has 12 bits");
  ExpectError(PackedBytes(Dtype::kU8, {2, -7}), Errc::kCorrupt, "[2, -7]");
  ExpectError(PackedBytes(Dtype::kF32, {INT64_MAX}), Errc::kCorrupt,
              "[9223372036854775807] of F32");
}

TEST(Shape, StridesAndText) {
  EXPECT_EQ(RowMajorStrides({}), Shape{});
  EXPECT_EQ(RowMajorStrides({2, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_EQ(RowMajorStrides({2, 0, 3}), (Shape{3, 3, 1}));   // as in torch
  EXPECT_EQ(RowMajorStrides({0, INT64_MAX, 4}).size(), 3u);  // no signed overflow (ubsan)
  EXPECT_EQ(ShapeText({}), "[]");
  EXPECT_EQ(ShapeText({4096, 128}), "[4096, 128]");
}

template <typename T>
double AsDouble(Dtype dtype, T value) {
  std::byte bytes[16] = {};
  std::memcpy(bytes + 1, &value, sizeof value);  // unaligned
  return ElementAsDouble(dtype, bytes + 1);
}

TEST(ElementAsDouble, IntegersAndFloats) {
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kBool, 2), 1);
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kU8, 255), 255);
  EXPECT_EQ(AsDouble<int8_t>(Dtype::kI8, -128), -128);
  EXPECT_EQ(AsDouble<int16_t>(Dtype::kI16, -2), -2);
  EXPECT_EQ(AsDouble<uint16_t>(Dtype::kU16, 65535), 65535);
  EXPECT_EQ(AsDouble<int32_t>(Dtype::kI32, -2), -2);
  EXPECT_EQ(AsDouble<uint32_t>(Dtype::kU32, UINT32_MAX), 4294967295.0);
  EXPECT_EQ(AsDouble<int64_t>(Dtype::kI64, -3), -3);
  EXPECT_EQ(AsDouble<uint64_t>(Dtype::kU64, uint64_t{1} << 63), 0x1p63);
  EXPECT_EQ(AsDouble<uint16_t>(Dtype::kF16, 0x3c00), 1);
  EXPECT_EQ(AsDouble<uint16_t>(Dtype::kBF16, 0xc000), -2);
  EXPECT_EQ(AsDouble<float>(Dtype::kF32, 0.5f), 0.5);
  EXPECT_EQ(AsDouble<double>(Dtype::kF64, 0.1), 0.1);
  EXPECT_EQ(AsDouble<float>(Dtype::kC64, 7.0f), 7);
}

// Extremes from the definitions of the types (OCP FP8, and the FNUZ variants of AMD and Graphcore).
TEST(ElementAsDouble, EightBitFloats) {
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kF8E4M3, 0x7e), 448);
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kF8E4M3, 0x01), 0x1p-9);
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kF8E4M3, 0xb8), -1);
  EXPECT_TRUE(std::isnan(AsDouble<uint8_t>(Dtype::kF8E4M3, 0xff)));
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kF8E5M2, 0x7b), 57344);
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kF8E5M2, 0x01), 0x1p-16);
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kF8E5M2, 0xfc), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(AsDouble<uint8_t>(Dtype::kF8E5M2, 0x7d)));
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kF8E4M3Fnuz, 0x7f), 240);
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kF8E4M3Fnuz, 0x01), 0x1p-10);
  EXPECT_TRUE(std::isnan(AsDouble<uint8_t>(Dtype::kF8E4M3Fnuz, 0x80)));
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kF8E5M2Fnuz, 0x7f), 57344);
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kF8E5M2Fnuz, 0x01), 0x1p-17);
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kF8E8M0, 0), 0x1p-127);
  EXPECT_EQ(AsDouble<uint8_t>(Dtype::kF8E8M0, 254), 0x1p127);
  EXPECT_TRUE(std::isnan(AsDouble<uint8_t>(Dtype::kF8E8M0, 255)));
}

TEST(SwapBytes, ReversesEachUnit) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 16; ++i) bytes.push_back(static_cast<std::byte>(i));
  for (const int unit : {1, 2, 4, 8}) {
    std::vector<std::byte> swapped = bytes;
    SwapBytes(swapped, unit);
    for (int i = 0; i < 16; ++i)
      EXPECT_EQ(std::to_integer<int>(swapped[static_cast<size_t>(i)]),
                i / unit * unit + unit - 1 - i % unit)
          << "unit " << unit;
  }
}

}  // namespace
}  // namespace nxdkit
