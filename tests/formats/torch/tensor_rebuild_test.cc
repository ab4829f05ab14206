// Tensors and their storages: the meaning of torch's rebuild functions, and their refused
// arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/formats/torch/builders.h"
#include "tests/formats/torch/expect_error.h"

namespace nxdkit::torch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kMember = "x/data.pkl";
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
const std::string kSix(24, '\x11');  // six floats

Result<Archive> ReadBody(std::string_view body) {
  return ReadBytes(ArchiveOf(Pickle(body), {kSix}));
}

void ExpectTensorRefused(const TestTensor& tensor, Errc code, const std::string& says) {
  const std::string body = tensor.Pickled();
  ExpectError(ReadBody(body), {code, kMember, body.size() + 1, says});  // the REDUCE, after PROTO
}

// A call of torch._utils.<function> with these arguments, refused at its REDUCE.
std::string Call(std::string_view function, std::string_view arguments) {
  return Global("torch._utils", function) + Tuple(arguments) + "R";
}
void ExpectCallRefused(std::string_view function, std::string_view arguments, Errc code,
                       const std::string& says) {
  const std::string body = Call(function, arguments);
  ExpectError(ReadBody(body), {code, kMember, body.size() + 1, says});
}

const std::string kHooks = Global("collections", "OrderedDict") + ")R";
const std::string kSixFloats = StorageId("FloatStorage", "0", 6);
const std::string kUntyped = Tuple(Str("storage") + Global("torch.storage", "UntypedStorage") +
                                   Str("0") + Str("cpu") + Long(24)) +
                             "Q";
const std::string kPlace = Int(1) + IntTuple({2}) + IntTuple({2});  // elements 1 and 3

void ExpectElements1And3(std::string_view body, Dtype dtype = Dtype::kF32) {
  const TempFolder folder;
  const std::string path = folder.File("t.pt", ArchiveOf(Pickle(body), {kSix}));
  const Result<Archive> archive = ReadArchive(path);
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  ASSERT_EQ(archive->tensors.size(), 1u);
  const StoredTensor& tensor = archive->tensors[0];
  EXPECT_EQ(tensor.dtype, dtype);
  EXPECT_EQ(tensor.offset, static_cast<uint64_t>(ElementBytes(dtype)));
  EXPECT_THAT(tensor.shape, ElementsAre(2));
  EXPECT_THAT(tensor.strides, ElementsAre(2));
  EXPECT_EQ(tensor.name, "");
  ASSERT_NE(archive->root.tensor(), nullptr);
}

TEST(TensorRebuild, EveryFunction) {
  const std::string v2 = kSixFloats + kPlace + "\x89" + kHooks;
  ExpectElements1And3(Call("_rebuild_tensor", kSixFloats + kPlace));
  ExpectElements1And3(Call("_rebuild_tensor_v2", v2));
  ExpectElements1And3(Call("_rebuild_tensor_v2", v2 + "N"));
  ExpectElements1And3(Call("_rebuild_tensor_v2", v2 + "}" + Str("conj") + "\x89s"));
  ExpectElements1And3(
      Call("_rebuild_tensor_v3", kUntyped + kPlace + "\x89" + kHooks + Global("torch", "uint16")),
      Dtype::kU16);
  ExpectElements1And3(Call("_rebuild_tensor_v3", kUntyped + kPlace + "\x89" + kHooks +
                                                     Global("torch", "float8_e5m2") + "N"),
                      Dtype::kF8E5M2);
  const std::string tensor = Call("_rebuild_tensor_v2", v2);
  ExpectElements1And3(Call("_rebuild_parameter", tensor + "\x88" + kHooks));
  ExpectElements1And3(Call("_rebuild_parameter_with_state", tensor + "\x88" + kHooks + "}"));
  ExpectElements1And3(Call("_rebuild_device_tensor_from_cpu_tensor",
                           tensor + Global("torch", "float32") + Str("xla:0") + "\x89"));
  for (const char* type : {"torch\nTensor\n", "torch.nn.parameter\nParameter\n"})
    ExpectElements1And3(Global("torch._tensor", "_rebuild_from_type_v2") +
                        Tuple(Global("torch._utils", "_rebuild_tensor_v2") + "c" + type +
                              Tuple(v2) + "}" + Str("partition_dim") + std::string("K\0s", 3)) +
                        "R");
}

TEST(TensorRebuild, EveryStorageClass) {
  const struct {
    const char* name;
    Dtype dtype;
  } kClasses[] = {{"DoubleStorage", Dtype::kF64},       {"FloatStorage", Dtype::kF32},
                  {"HalfStorage", Dtype::kF16},         {"BFloat16Storage", Dtype::kBF16},
                  {"LongStorage", Dtype::kI64},         {"IntStorage", Dtype::kI32},
                  {"ShortStorage", Dtype::kI16},        {"CharStorage", Dtype::kI8},
                  {"ByteStorage", Dtype::kU8},          {"BoolStorage", Dtype::kBool},
                  {"ComplexFloatStorage", Dtype::kC64}, {"ComplexDoubleStorage", Dtype::kC128}};
  for (const auto& row : kClasses) {
    for (const char* module : {"torch", "torch.cuda"}) {
      const std::string storage =
          Tuple(Str("storage") + Global(module, row.name) + Str("0") + Str("cuda:0") + Long(3)) +
          "Q";
      const std::string body =
          Call("_rebuild_tensor", storage + Int(0) + IntTuple({3}) + IntTuple({1}));
      const std::string data(static_cast<size_t>(3 * ElementBytes(row.dtype)), '\0');
      const Result<Archive> archive = ReadBytes(ArchiveOf(Pickle(body), {data}));
      ASSERT_TRUE(archive.ok()) << row.name << ": " << archive.error().ToString();
      EXPECT_EQ(archive->tensors[0].dtype, row.dtype);
    }
  }
}

TEST(TensorRebuild, EmptyTensorsMayBeAnywhere) {
  const Result<Archive> archive = ReadBody(TestTensor{.offset = 100, .shape = {0, 3}}.Pickled());
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  EXPECT_EQ(archive->tensors[0].offset, 0u);
}

TEST(TensorRebuild, RefusesElementsOutsideOfTheStorage) {
  EXPECT_TRUE(ReadBody(TestTensor{.shape = {6}, .strides = {1}}.Pickled()).ok());
  ExpectTensorRefused(
      {.shape = {7}, .strides = {1}}, Errc::kCorrupt,
      "shape [7], strides [1] and offset 0 (float32) is not within its storage of 24");
  ExpectTensorRefused({.offset = 1}, Errc::kCorrupt, "offset 1 (float32) is not within");
  ExpectTensorRefused({.strides = {4, 1}}, Errc::kCorrupt, "strides [4, 1]");
  ExpectTensorRefused({.shape = {2}, .strides = {6}}, Errc::kCorrupt, "strides [6]");
}

TEST(TensorRebuild, RefusesArithmeticThatOverflows) {
  ExpectTensorRefused({.shape = {kMost, 3}}, Errc::kCorrupt, "more than 2^63 - 1 elements");
  ExpectTensorRefused({.shape = {2, 2}, .strides = {kMost, kMost}}, Errc::kCorrupt,
                      "is not within");
  ExpectTensorRefused({.shape = {3, 2}, .strides = {kMost, 1}}, Errc::kCorrupt,
                      "is not within");
  ExpectTensorRefused({.offset = kMost}, Errc::kCorrupt, "is not within");
  ExpectTensorRefused({.shape = {2}, .strides = {kMost / 4}}, Errc::kCorrupt,
                      "is not within");
}

TEST(TensorRebuild, RefusesNegativeNumbers) {
  ExpectTensorRefused({.offset = -1}, Errc::kCorrupt,
                      "argument 2 of torch._utils._rebuild_tensor_v2");
  ExpectTensorRefused({.shape = {-2, 3}}, Errc::kCorrupt,
                      "argument 3 of torch._utils._rebuild_tensor_v2 has the negative number -2");
  ExpectTensorRefused({.strides = {3, -1}}, Errc::kCorrupt,
                      "argument 4 of torch._utils._rebuild_tensor_v2 has the negative number -1");
}

TEST(TensorRebuild, RefusesShapeAndStridesOfTwoLengths) {
  ExpectTensorRefused({.strides = {1}}, Errc::kCorrupt, "2 dimensions and 1 strides");
}

TEST(TensorRebuild, RefusesArgumentsThatDoNotFit) {
  ExpectCallRefused("_rebuild_tensor", kSixFloats + Int(0), Errc::kCorrupt,
                    "called with 2 arguments, expected 4 to 4");
  ExpectCallRefused("_rebuild_tensor", "N" + kPlace, Errc::kCorrupt,
                    "argument 1 of torch._utils._rebuild_tensor is a None, expected a storage");
  ExpectCallRefused("_rebuild_tensor", kSixFloats + Int(0) + "]" + IntTuple({1}), Errc::kCorrupt,
                    "argument 3 of torch._utils._rebuild_tensor is a list");
  ExpectCallRefused("_rebuild_tensor", kSixFloats + Int(0) + "N\x85" + IntTuple({1}),
                    Errc::kCorrupt, "expected a tuple of integers");
  ExpectCallRefused("_rebuild_tensor", kUntyped + kPlace, Errc::kCorrupt, "of an untyped storage");
  ExpectCallRefused("_rebuild_tensor_v3", kUntyped + kPlace + "\x89" + kHooks + "N", Errc::kCorrupt,
                    "argument 7 of torch._utils._rebuild_tensor_v3 is a None, expected a dtype");
  ExpectCallRefused("_rebuild_tensor_v2", kSixFloats + kPlace + "\x89" + kHooks + "]",
                    Errc::kCorrupt,
                    "argument 7 of torch._utils._rebuild_tensor_v2 is a list, expected a dict");
  ExpectCallRefused("_rebuild_parameter", "N\x88" + kHooks, Errc::kCorrupt,
                    "is a None, expected a tensor");
}

TEST(TensorRebuild, RefusesDtypesThatNoTensorHasHere) {
  for (const char* dtype : {"float4_e2m1fn_x2", "qint8", "bits8", "uint4"})
    ExpectCallRefused("_rebuild_tensor_v3",
                      kUntyped + kPlace + "\x89" + kHooks + Global("torch", dtype),
                      Errc::kUnsupported, std::string("tensors of torch.") + dtype);
}

TEST(TensorRebuild, RefusesConjAndNeg) {
  for (const char* bit : {"conj", "neg"})
    ExpectCallRefused("_rebuild_tensor_v2",
                      kSixFloats + kPlace + "\x89" + kHooks + "}" + Str(bit) + "\x88s",
                      Errc::kUnsupported, std::string("a tensor with the ") + bit + " bit set");
}

TEST(TensorRebuild, RefusesOtherTypes) {
  const std::string v2 = Global("torch._utils", "_rebuild_tensor_v2");
  const std::string from_type = Global("torch._tensor", "_rebuild_from_type_v2");
  const std::string own =
      from_type + Tuple(from_type + Global("torch", "Tensor") + ")" + "}") + "R";
  ExpectError(ReadBody(own), {Errc::kCorrupt, kMember, own.size() + 1,
                              "expected a function that rebuilds a tensor"});
  const std::string type = from_type + Tuple(v2 + Global("torch", "Size") + ")" + "}") + "R";
  ExpectError(ReadBody(type),
              {Errc::kCorrupt, kMember, type.size() + 1, "expected torch.Tensor or Parameter"});
  const std::string list = from_type + Tuple(v2 + Global("torch", "Tensor") + "]" + "}") + "R";
  ExpectError(ReadBody(list),
              {Errc::kCorrupt, kMember, list.size() + 1, "called with a list, expected a tuple"});
  const std::string tensor = TestTensor().Pickled();
  ExpectCallRefused("_rebuild_device_tensor_from_cpu_tensor",
                    tensor + Global("torch", "bfloat16") + Str("xla:0") + "\x89",
                    Errc::kUnsupported, "a tensor of bfloat16 that was saved as float32");
}

// ---- persistent ids ----

void ExpectIdRefused(std::string_view fields, Errc code, const std::string& says) {
  const std::string body = Tuple(fields) + "Q";
  ExpectError(ReadBody(body), {code, kMember, body.size() + 1, says});
}

TEST(PersistentId, RefusesWhatIsNoStorage) {
  const std::string type = Global("torch", "FloatStorage");
  ExpectError(ReadBody("K\1Q"), {Errc::kCorrupt, kMember, 4, "a int, expected a tuple"});
  ExpectIdRefused("", Errc::kCorrupt, "names a \"\", expected a \"storage\"");
  ExpectIdRefused(Str("file"), Errc::kCorrupt, "names a \"file\"");
  ExpectIdRefused(Str("module") + "NNN", Errc::kUnsupported, "whole module");
  ExpectIdRefused(Str("storage") + type + Str("0") + Str("cpu"), Errc::kCorrupt,
                  "4 fields, expected 5");
  ExpectIdRefused(Str("storage") + Str("t") + Str("0") + Str("cpu") + Int(6), Errc::kCorrupt,
                  "field 2 is not a storage class");
  ExpectIdRefused(Str("storage") + Global("torch", "Size") + Str("0") + Str("cpu") + Int(6),
                  Errc::kCorrupt, "field 2 is torch.Size");
  ExpectIdRefused(Str("storage") + type + Int(0) + Str("cpu") + Int(6), Errc::kCorrupt,
                  "field 3, the key");
  ExpectIdRefused(Str("storage") + type + Str("0") + Str("cpu") + Int(-6), Errc::kCorrupt,
                  "field 5, the number of elements");
  ExpectIdRefused(Str("storage") + type + Str("0") + Str("cpu") + Long(kMost), Errc::kCorrupt,
                  "9223372036854775807 elements of 4 bytes");
}

TEST(PersistentId, RefusesTwoSizesOfOneStorage) {
  const std::string first = StorageId("FloatStorage", "0", 6);
  const std::string second = StorageId("FloatStorage", "0", 5);
  ExpectError(ReadBody(first + second),
              {Errc::kCorrupt, kMember, 1 + first.size() + second.size(),
               "storage \"0\" has 20 bytes here, and 24 bytes at offset " +
                   std::to_string(first.size() + 1)});
}

TEST(PersistentId, OneStorageMayHaveTwoClasses) {
  const std::string bytes = TestTensor{
      .storage_class = "ByteStorage",
      .elements = 24,
      .shape = {24},
      .strides = {1}}.Pickled();
  const TempFolder folder;
  const Result<Archive> archive = ReadArchive(
      folder.File("t.pt", ArchiveOf(Pickle(TestTensor().Pickled() + bytes + "\x86"), {kSix})));
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  EXPECT_EQ(archive->tensors[0].storage, archive->tensors[1].storage);
  EXPECT_EQ(LogicalBytes(archive->tensors[1]).value(), kSix);
}

TEST(PersistentId, BareStoragesAreRefused) {
  ExpectError(ReadBody(kSixFloats),
              {Errc::kUnsupported, kMember, kSixFloats.size() + 1, "bare storage"});
}

}  // namespace
}  // namespace nxdkit::torch
