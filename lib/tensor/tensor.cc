#include "lib/tensor/tensor.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/tensor/checked_storage.h"

namespace nxdkit {
namespace {

class FileRange : public Storage {
 public:
  FileRange(std::shared_ptr<const File> file, uint64_t offset, uint64_t bytes)
      : file_(std::move(file)), offset_(offset), bytes_(bytes) {}

  uint64_t bytes() const override { return bytes_; }
  const std::string& path() const override { return file_->path(); }
  uint64_t file_offset() const override { return offset_; }
  bool is_file_range() const override { return true; }

  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    const std::optional<uint64_t> end = CheckedAdd<uint64_t>(offset, to.size());
    const std::optional<uint64_t> at = CheckedAdd(offset_, offset);
    if (!end || *end > bytes_ || !at)
      return Corrupt(
                 "{} bytes at offset {} of a storage of {} bytes (which starts at {} in the file)",
                 to.size(), offset, bytes_, offset_)
          .in(path());
    return file_->ReadAt(*at, to);
  }

 private:
  std::shared_ptr<const File> file_;  // shared by all storages of the file, read by many threads
  uint64_t offset_;
  uint64_t bytes_;
};

// A part of a file that is opened only while it is read.
class PathRange : public Storage {
 public:
  PathRange(std::shared_ptr<FileCache> cache, std::string path, uint64_t offset, uint64_t bytes)
      : cache_(std::move(cache)), path_(std::move(path)), offset_(offset), bytes_(bytes) {}
  uint64_t bytes() const override { return bytes_; }
  const std::string& path() const override { return path_; }
  uint64_t file_offset() const override { return offset_; }
  bool is_file_range() const override { return true; }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    if (offset > bytes_ || to.size() > bytes_ - offset)
      return Corrupt("{} bytes at {} of a storage of {}", to.size(), offset, bytes_).in(path_);
    NXDKIT_ASSIGN(const std::shared_ptr<const File> file, cache_->Get(path_));
    return file->ReadAt(offset_ + offset, to);
  }

 private:
  std::shared_ptr<FileCache> cache_;  // shared by all storages of the set
  std::string path_;
  uint64_t offset_;
  uint64_t bytes_;
};

class Borrowed : public Storage {
 public:
  Borrowed(std::span<const std::byte> bytes, std::string path)
      : bytes_(bytes), path_(std::move(path)) {}
  uint64_t bytes() const override { return bytes_.size(); }
  const std::string& path() const override { return path_; }
  uint64_t file_offset() const override { return 0; }
  bool is_borrowed() const override { return true; }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    if (offset > bytes_.size() || to.size() > bytes_.size() - offset)
      return Corrupt("{} bytes at {} of a storage of {}", to.size(), offset, bytes_.size())
          .in(path_);
    // std::ranges::copy of spans goes byte by byte (g++ 12), a tenth of the speed.
    if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
    return OkStatus();
  }

 private:
  std::span<const std::byte> bytes_;
  std::string path_;
};

// Bytes that the storage owns.
class InMemory : public Storage {
 public:
  InMemory(std::string bytes, std::string path)
      : contents_(std::move(bytes)), view_(std::as_bytes(std::span(contents_)), std::move(path)) {}
  uint64_t bytes() const override { return view_.bytes(); }
  const std::string& path() const override { return view_.path(); }
  uint64_t file_offset() const override { return 0; }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override {
    return view_.ReadAt(offset, to);
  }

 private:
  std::string contents_;
  Borrowed view_;  // of the bytes
};

}  // namespace

bool IsPacked(const StoredTensor& tensor) {
  if (tensor.shape.size() != tensor.strides.size()) return false;
  if (std::ranges::count(tensor.shape, 0) > 0) return true;
  const Shape packed = RowMajorStrides(tensor.shape);
  for (size_t i = 0; i < packed.size(); ++i)
    if (tensor.shape[i] != 1 && tensor.strides[i] != packed[i]) return false;
  return true;
}

Result<double> ReadSingle(StoredTensor tensor) {
  const std::optional<int64_t> count = ElementCount(tensor.shape);
  if (count != 1)
    return Corrupt("a tensor of shape {}, expected one number", ShapeText(tensor.shape));
  tensor.shape = tensor.strides = {};
  return ReadScalar(tensor);
}

StoredTensor ScalarTensor(std::string name, double value, std::string path) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(bits >> (8 * i)));
  return {std::move(name),
          Dtype::kF32,
          {},
          {},
          0,
          false,
          InMemoryStorage(std::move(bytes), std::move(path))};
}

Result<bool> IsZeroFrom(const StoredTensor& tensor, int64_t from) {
  constexpr uint64_t kMostRead = 1 << 20;
  const auto width = static_cast<uint64_t>(ElementBytes(tensor.dtype));
  const uint64_t row = static_cast<uint64_t>(tensor.strides[0]) * width;
  uint64_t at = tensor.offset + static_cast<uint64_t>(from) * row;
  const uint64_t end = tensor.offset + static_cast<uint64_t>(tensor.shape[0]) * row;
  std::vector<std::byte> bytes(std::min(kMostRead, end - at));
  while (at < end) {
    const auto part = std::span(bytes).first(std::min<uint64_t>(bytes.size(), end - at));
    NXDKIT_TRY(tensor.storage->ReadAt(at, part));
    if (std::ranges::any_of(part, [](std::byte b) { return b != std::byte{0}; })) return false;
    at += part.size();
  }
  return true;
}

Result<double> ReadScalar(const StoredTensor& tensor) {
  if (tensor.big_endian) return Unsupported("a number of the other byte order cannot be read");
  if (ElementBytes(tensor.dtype) == 0)
    return Unsupported("a number smaller than a byte cannot be read");
  std::string bytes(static_cast<size_t>(ElementBytes(tensor.dtype)), '\0');
  NXDKIT_TRY(tensor.storage->ReadAt(tensor.offset, std::as_writable_bytes(std::span(bytes))));
  return ElementAsDouble(tensor.dtype, reinterpret_cast<const std::byte*>(bytes.data()));
}

std::shared_ptr<const Storage> FileStorage(std::shared_ptr<const File> file, uint64_t offset,
                                           uint64_t bytes) {
  return std::make_shared<FileRange>(std::move(file), offset, bytes);
}

std::shared_ptr<const Storage> Reopened(std::shared_ptr<const Storage> storage,
                                        std::shared_ptr<FileCache> cache) {
  if (!storage->is_file_range()) return storage;
  std::shared_ptr<const Storage> again = std::make_shared<PathRange>(
      std::move(cache), storage->path(), storage->file_offset(), storage->bytes());
  const CheckedStorage* const checked = storage->checked();
  if (!checked) return again;
  return std::make_shared<CheckedStorage>(std::move(again), checked->crc(), checked->member());
}

std::shared_ptr<const Storage> InMemoryStorage(std::string bytes, std::string path) {
  return std::make_shared<InMemory>(std::move(bytes), std::move(path));
}

std::shared_ptr<const Storage> BorrowedStorage(std::span<const std::byte> bytes, std::string name) {
  return std::make_shared<Borrowed>(bytes, std::move(name));
}

}  // namespace nxdkit
