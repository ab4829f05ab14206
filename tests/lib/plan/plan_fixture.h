// Layouts, stored tensors and byte sources for the tests of the plan engine, and a naive executor
// to compare it with.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "lib/plan/plan.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::testing_util {

// Bytes in memory that record every read. Thread-safe.
class CountingStorage : public Storage {
 public:
  explicit CountingStorage(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  uint64_t bytes() const override { return bytes_.size(); }
  const std::string& path() const override { return path_; }
  uint64_t file_offset() const override { return 0; }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    const std::lock_guard lock(mutex_);
    reads_.emplace_back(offset, to.size());
    if (offset > bytes_.size() || to.size() > bytes_.size() - offset)
      return Error(Errc::kCorrupt, "read past the end of a memory storage").at(offset);
    if (fail_at_ >= offset && fail_at_ < offset + to.size())
      return Error(Errc::kIo, "the disk is broken here").in(path_).at(fail_at_);
    if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
    return OkStatus();
  }

  // Reads that touch this byte fail.
  void FailAt(uint64_t offset) { fail_at_ = offset; }
  uint64_t reads() const { return reads_.size(); }
  uint64_t bytes_read() const {
    uint64_t sum = 0;
    for (const auto& [offset, size] : reads_) sum += size;
    return sum;
  }
  uint64_t largest_read() const {
    uint64_t largest = 0;
    for (const auto& [offset, size] : reads_) largest = std::max<uint64_t>(largest, size);
    return largest;
  }

 private:
  std::vector<std::byte> bytes_;
  std::string path_ = "memory";
  uint64_t fail_at_ = UINT64_MAX;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<uint64_t, uint64_t>> reads_;
};

// Elements first, first + 1, ... of a 4-byte integer dtype, as bytes.
inline std::vector<std::byte> Numbers(int64_t count, uint32_t first = 0) {
  std::vector<uint32_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  std::vector<std::byte> bytes(numbers.size() * 4);
  if (count > 0) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

inline std::vector<uint32_t> AsNumbers(const std::vector<std::byte>& bytes) {
  std::vector<uint32_t> numbers(bytes.size() / 4);
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

inline StoredTensor Packed(std::string name, Dtype dtype, Shape shape,
                           std::shared_ptr<const Storage> storage, uint64_t offset = 0) {
  StoredTensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.strides = RowMajorStrides(shape);
  tensor.shape = std::move(shape);
  tensor.offset = offset;
  tensor.storage = std::move(storage);
  return tensor;
}

inline StoredTensor PackedNumbers(std::string name, Shape shape, uint32_t first = 0) {
  const int64_t count = *ElementCount(shape);
  return Packed(std::move(name), Dtype::kU32, std::move(shape),
                std::make_shared<CountingStorage>(Numbers(count, first)));
}

// Calls visit(index) for every index below `extent`, row-major.
template <typename Visit>
void ForEachIndex(const Shape& extent, const Visit& visit) {
  for (int64_t e : extent)
    if (e == 0) return;
  Shape index(extent.size(), 0);
  while (true) {
    visit(index);
    size_t d = extent.size();
    while (d > 0 && ++index[d - 1] == extent[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

inline int64_t LinearIndex(const Shape& index, const Shape& strides) {
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
  return at;
}

// Parameter `param`'s element: different everywhere, so that no wrong copy looks right.
inline uint32_t LogicalValue(uint32_t param, int64_t element) {
  return (param + 1) * 1'000'003u + static_cast<uint32_t>(element) * 7919u;
}

// The contents of a stored tensor, element by element.
inline std::vector<uint32_t> NaiveTensor(const std::vector<LogicalTensor>& params,
                                         const TensorLayout& tensor) {
  std::vector<uint32_t> out(static_cast<size_t>(*ElementCount(tensor.shape)), 0xDEADBEEF);
  const Shape strides = RowMajorStrides(tensor.shape);
  for (const Fill& fill : tensor.fills)
    ForEachIndex(fill.stored.extent, [&](Shape index) {
      for (size_t d = 0; d < index.size(); ++d) index[d] += fill.stored.lo[d];
      out[LinearIndex(index, strides)] = static_cast<uint32_t>(fill.value);
    });
  for (const Piece& piece : tensor.pieces) {
    const Shape param_strides = RowMajorStrides(params[piece.param].shape);
    ForEachIndex(piece.logical.extent, [&](const Shape& index) {
      Shape stored = piece.stored_lo;
      Shape logical = piece.logical.lo;
      for (size_t d = 0; d < index.size(); ++d) {
        stored[piece.axes[d]] += index[d];
        logical[d] += index[d];
      }
      out[LinearIndex(stored, strides)] =
          LogicalValue(piece.param, LinearIndex(logical, param_strides));
    });
  }
  return out;
}

inline BoundLayout NaiveBind(const std::vector<LogicalTensor>& params, const Layout& layout) {
  BoundLayout bound{layout, {}};
  for (const TensorLayout& tensor : layout.tensors) {
    const std::vector<uint32_t> numbers = NaiveTensor(params, tensor);
    std::vector<std::byte> bytes(numbers.size() * 4);
    if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
    bound.stored.push_back(Packed(tensor.name, Dtype::kU32, tensor.shape,
                                  std::make_shared<CountingStorage>(std::move(bytes))));
  }
  return bound;
}

// A tensor of one file with rows [row, row + rows) of the parameter.
inline TensorLayout RowsOf(std::string name, uint32_t param, const Shape& shape, int64_t row,
                           int64_t rows, uint32_t file = 0) {
  Shape stored = shape;
  stored[0] = rows;
  TensorLayout tensor{std::move(name), file, stored, std::nullopt, {}, {}};
  AddRows(tensor, param, shape, row, rows, 0);
  return tensor;
}

inline TensorLayout ColumnsOf(std::string name, uint32_t param, const Shape& shape, int64_t column,
                              int64_t columns, uint32_t file = 0) {
  TensorLayout tensor{std::move(name), file, {shape[0], columns}, std::nullopt, {}, {}};
  AddColumns(tensor, param, shape, column, columns, 0);
  return tensor;
}

inline TensorLayout WholeOf(std::string name, uint32_t param, const Shape& shape,
                            uint32_t file = 0) {
  TensorLayout tensor{std::move(name), file, shape, std::nullopt, {}, {}};
  AddWhole(tensor, param, shape);
  return tensor;
}

inline Layout LayoutOf(std::vector<TensorLayout> tensors) {
  Layout layout;
  for (const TensorLayout& tensor : tensors)
    while (layout.files.size() <= tensor.file)
      layout.files.push_back({"file" + std::to_string(layout.files.size()), -1, -1});
  layout.tensors = std::move(tensors);
  return layout;
}

}  // namespace nxdkit::testing_util
