// PRIVATE to tests. The base of the tests of tensor readers.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "formats/ops/read/reader.h"
#include "tests/formats/ops/ops_workshop.h"

namespace nxdkit::testing_util {

inline std::shared_ptr<const ops::BoundArtifact> OpenShared(const std::string& path,
                                                            const ops::Kind* kind,
                                                            const ops::InputHints& hints = {}) {
  auto bound = ops::OpenAndBind(path, kind, hints);
  EXPECT_TRUE(bound.ok()) << bound.error().ToString();
  if (!bound.ok()) return nullptr;
  return std::make_shared<const ops::BoundArtifact>(*std::move(bound));
}

// The reader that was made; an empty one after a failure.
inline ops::TensorReader Made(Result<ops::TensorReader> reader) {
  EXPECT_TRUE(reader.ok()) << reader.error().ToString();
  if (reader.ok()) return *std::move(reader);
  return *ops::TensorReader::OfParameters(std::make_shared<const ops::BoundArtifact>());
}

inline std::vector<std::byte> ReadSlice(const ops::TensorReader& reader, size_t tensor,
                                        const Slice& slice) {
  std::vector<std::byte> bytes(*PackedBytes(reader.tensors()[tensor].dtype, slice.extent()));
  const Status read = reader.Read(tensor, slice, bytes);
  EXPECT_TRUE(read.ok()) << read.error().ToString();
  return bytes;
}
inline std::vector<std::byte> ReadWhole(const ops::TensorReader& reader, size_t tensor) {
  return ReadSlice(reader, tensor, WholeSlice(reader.tensors()[tensor].shape));
}

inline Slice RandomSlice(const Shape& shape, std::mt19937& random) {
  Slice slice = WholeSlice(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    slice.begin[d] = static_cast<int64_t>(random() % static_cast<uint64_t>(shape[d] + 1));
    slice.end[d] -= static_cast<int64_t>(random() % static_cast<uint64_t>(shape[d] + 1));
    slice.end[d] = std::max(slice.begin[d], slice.end[d]);
    slice.step[d] = 1 + static_cast<int64_t>(random() % 5);
  }
  return slice;
}

// The slice's part of the packed bytes of a tensor, element by element.
inline std::vector<std::byte> Picked(const std::vector<std::byte>& whole,
                                     const OutputTensor& tensor, const Slice& slice) {
  const auto width = static_cast<size_t>(ElementBytes(tensor.dtype));
  const Shape strides = RowMajorStrides(tensor.shape);
  const Shape extent = slice.extent();
  std::vector<std::byte> out;
  const int64_t count = *ElementCount(extent);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    int64_t at = 0;
    for (size_t d = extent.size(); d > 0; --d) {
      at += (slice.begin[d - 1] + rest % extent[d - 1] * slice.step[d - 1]) * strides[d - 1];
      rest /= extent[d - 1];
    }
    const auto first = whole.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(at) * width);
    out.insert(out.end(), first, first + static_cast<std::ptrdiff_t>(width));
  }
  return out;
}

using NamedBytes = std::map<std::string, std::vector<std::byte>>;

inline NamedBytes ReadAll(const ops::TensorReader& reader) {
  NamedBytes all;
  for (size_t t = 0; t < reader.tensors().size(); ++t) {
    const OutputTensor& tensor = reader.tensors()[t];
    const auto [at, is_new] = all.emplace(
        tensor.name + " " + std::string(Name(tensor.dtype)) + " " + ShapeText(tensor.shape),
        ReadWhole(reader, t));
    EXPECT_TRUE(is_new) << at->first << " is there twice";
  }
  return all;
}

// Writes a byte of a file again, unchanged, at another time.
inline void Touch(const std::string& path) {
  const auto time = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, time + std::chrono::seconds(2));
}

}  // namespace nxdkit::testing_util
