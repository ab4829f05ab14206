// Our side of the tests with a real torch: writes archives for it, and shows how we read its own.
//   torch_probe write FOLDER     a set of archives, see torch_interop.py
//   torch_probe dump FILE        the value as JSON; 1 and the error on stderr when it is refused
//   torch_probe many FILE N      a state dict of N small tensors
//   torch_probe open FILE        opens the file, prints the seconds that took
//   torch_probe large FILE       a state dict with 4 GiB of zeros between two small tensors
//   torch_probe last FILE        the bytes of the last tensor, in hexadecimal
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "formats/torch/archive.h"
#include "formats/torch/encoder.h"
#include "lib/hash/crc32.h"
#include "lib/hash/digest.h"
#include "tests/formats/torch/archive_io.h"

namespace nxdkit::torch {
namespace {

int Fail(const Error& error) {
  std::fprintf(stderr, "%s: %s\n", std::string(ErrcName(error.code())).c_str(),
               error.ToString().c_str());
  return 1;
}

Status WriteEncoded(const std::string& path, Result<std::unique_ptr<FileEncoder>> encoder) {
  if (!encoder.ok()) return std::move(encoder).error();
  WriteFile(path, EncodedFile(**encoder));
  return OkStatus();
}

PickleValue Text(std::string text) { return PickleValue{std::move(text)}; }
PickleValue Number(int64_t number) { return PickleValue{number}; }

// One tensor of every dtype that torch has.
std::vector<OutputTensor> EveryDtype() {
  std::vector<OutputTensor> tensors;
  for (int i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    if (TorchName(dtype).empty() || ElementBytes(dtype) == 0) continue;
    tensors.push_back({std::string(TorchName(dtype)), dtype, {2, 3}});
  }
  return tensors;
}

std::vector<OutputTensor> ManyTensors(size_t count) {
  std::vector<OutputTensor> tensors;
  for (size_t i = 0; i < count; ++i)
    tensors.push_back({"layers." + std::to_string(i) + ".weight", Dtype::kBF16, {2, 2}});
  return tensors;
}

// Like an optimizer's file: nested dicts, lists, tuples and every kind of plain value.
PickleValue Nested() {
  const PickleValue shared = PickleValue::MakeList({Number(1), Number(2)});
  PickleValue size{TorchSize{{4, 3, 2, 1}}};
  PickleValue tuple{PickleValue::Tuple{std::make_shared<PickleList>(
      PickleList{PickleValue{0.9}, PickleValue{0.999}, PickleValue{-0.0}, PickleValue{1e300}})}};
  PickleValue ordered{PickleValue::Dict{
      std::make_shared<PickleDict>(PickleDict{{Text("w"), PickleValue{TensorIndex{0}}},
                                              {Text("again"), PickleValue{TensorIndex{0}}}}),
      true}};
  PickleValue set{PickleValue::Set{std::make_shared<PickleList>(PickleList{Number(3), Number(5)})}};
  const PickleDict numbers = {
      {Number(0), PickleValue{false}},
      {Number(255), PickleValue{true}},
      {Number(256), Number(-1)},
      {Number(65535), Number(-65536)},
      {Number(65536), Number(INT64_C(2147483647))},
      {Number(-2147483648), Number(INT64_C(2147483648))},
      {Number(INT64_MIN), Number(INT64_MAX)},
  };
  return PickleValue::MakeDict({
      {Text("state"), ordered},
      {Text("step"), PickleValue{TensorIndex{1}}},
      {Text("betas"), tuple},
      {Text("list"), shared},
      {Text("the same list"), shared},
      {Text("numbers"), PickleValue::MakeDict(numbers)},
      {Text("big"), PickleValue{PickleValue::BigInt{"-123456789012345678901234567890"}}},
      {Text("none"), PickleValue{PickleValue::None{}}},
      {Text("bytes"), PickleValue{PickleValue::Bytes{std::string("\x00\x7f\x80\xff", 4)}}},
      {Text("no bytes"), PickleValue{PickleValue::Bytes{""}}},
      {Text("set"), set},
      {Text("dtype"), PickleValue{Dtype::kBF16}},
      {Text("shape"), size},
      {Text("\xc3\xa4\xe2\x82\xac"), PickleValue{std::string("\xf0\x9f\x98\x80")}},
      {Text("empty list"), PickleValue::MakeList({})},
      {Text("empty dict"), PickleValue::MakeDict({})},
  });
}

PickleValue References() {
  return PickleValue::MakeDict(
      {{Text("model.embed_tokens.weight"), PickleValue{TensorReference{0}}},
       {Text("lm_head.weight"), PickleValue{TensorReference{1}}},
       {Text("far"), PickleValue{TensorReference{70000}}}});
}

Status WriteAll(const std::string& folder) {
  const auto path = [&](const char* name) { return folder + "/" + name + ".pt"; };
  NXDKIT_TRY(WriteEncoded(path("dtypes"), EncodeStateDict(EveryDtype(), "dtypes")));
  NXDKIT_TRY(WriteEncoded(path("shapes"),
                          EncodeStateDict({{"scalar", Dtype::kF32, {}},
                                           {"empty", Dtype::kI64, {0, 5}},
                                           {"hollow", Dtype::kF32, {3, 0, 2}},
                                           {"row", Dtype::kF16, {7}},
                                           {"five", Dtype::kU8, {2, 1, 3, 1, 2}},
                                           {"name with spaces, \xc3\xa9", Dtype::kBF16, {1}}},
                                          "shapes")));
  NXDKIT_TRY(WriteEncoded(path("tensor_7"), EncodeTensor({"", Dtype::kBF16, {33, 3}}, "tensor_7")));
  NXDKIT_TRY(WriteEncoded(
      path("nested"),
      EncodeValue(Nested(), {{"w", Dtype::kF32, {3, 2}}, {"step", Dtype::kF32, {}}}, "nested")));
  NXDKIT_TRY(WriteEncoded(path("references"), EncodeValue(References(), {}, "references")));
  for (const size_t count : {0, 1, 2, 999, 1000, 1001, 2000, 2001})
    NXDKIT_TRY(WriteEncoded(folder + "/many_" + std::to_string(count) + ".pt",
                            EncodeStateDict(ManyTensors(count), "many")));
  return OkStatus();
}

int Dump(const std::string& path) {
  const Result<Archive> archive = ReadArchive(path, {.check_crc = true});
  if (!archive.ok()) return Fail(archive.error());
  const Result<std::string> json = JsonOf(*archive);
  if (!json.ok()) return Fail(json.error());
  std::printf("%s\n", json->c_str());
  return 0;
}

int Open(const std::string& path) {
  const auto begin = std::chrono::steady_clock::now();
  const Result<Archive> archive = ReadArchive(path);
  if (!archive.ok()) return Fail(archive.error());
  const Result<TensorFile> file = FlattenStateDict(*archive);
  if (!file.ok()) return Fail(file.error());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%zu tensors in %.3f s\n", file->tensors.size(), seconds.count());
  return 0;
}

// Sparse: the zeros are not written.
Status WriteLarge(const std::string& path) {
  const std::vector<OutputTensor> tensors = {{"small", Dtype::kU8, {3}},
                                             {"large", Dtype::kU8, {(int64_t{1} << 32) + 5}},
                                             {"behind", Dtype::kU8, {3}}};
  NXDKIT_ASSIGN(const auto encoder, EncodeStateDict(tensors, "large"));
  NXDKIT_ASSIGN(const File file, File::OpenWrite(path));
  std::vector<uint32_t> crcs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    uint32_t crc = 0;
    if (i == 1) {
      const std::vector<std::byte> zeros(1 << 20);
      for (int64_t left = tensors[i].shape[0]; left > 0; left -= static_cast<int64_t>(zeros.size()))
        crc = Crc32(crc, std::span(zeros).first(static_cast<size_t>(
                             std::min(left, static_cast<int64_t>(zeros.size())))));
    } else {
      const std::string bytes = PatternBytes(tensors[i], i);
      crc = Crc32(crc, std::as_bytes(std::span(bytes)));
      NXDKIT_TRY(file.WriteAt(encoder->data_offset(i), std::as_bytes(std::span(bytes))));
    }
    crcs.push_back(crc);
  }
  for (const Fragment& fragment : encoder->Frame(crcs))
    NXDKIT_TRY(file.WriteAt(fragment.offset, std::as_bytes(std::span(fragment.bytes))));
  return OkStatus();
}

int Last(const std::string& path) {
  const Result<Archive> archive = ReadArchive(path);
  if (!archive.ok()) return Fail(archive.error());
  const Result<std::string> bytes = LogicalBytes(archive->tensors.back());
  if (!bytes.ok()) return Fail(bytes.error());
  std::printf("%s\n", HexText(std::as_bytes(std::span(*bytes))).c_str());
  return 0;
}

int Main(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  Status status;
  if (verb == "write" && argc == 3) {
    status = WriteAll(argv[2]);
  } else if (verb == "dump" && argc == 3) {
    return Dump(argv[2]);
  } else if (verb == "large" && argc == 3) {
    status = WriteLarge(argv[2]);
  } else if (verb == "last" && argc == 3) {
    return Last(argv[2]);
  } else if (verb == "open" && argc == 3) {
    return Open(argv[2]);
  } else if (verb == "many" && argc == 4) {
    status = WriteEncoded(
        argv[2], EncodeStateDict(ManyTensors(std::strtoull(argv[3], nullptr, 10)), "many"));
  } else {
    std::fprintf(
        stderr,
        "usage: torch_probe write FOLDER | dump FILE | many FILE N | open FILE | large FILE | "
        "last FILE\n");
    return 2;
  }
  return status.ok() ? 0 : Fail(status.error());
}

}  // namespace
}  // namespace nxdkit::torch

int main(int argc, char** argv) { return nxdkit::torch::Main(argc, argv); }
