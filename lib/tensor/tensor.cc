#include "lib/tensor/tensor.h"

#include <optional>

#include "lib/base/checked.h"
#include "lib/base/errors.h"

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

}  // namespace

bool IsPacked(const StoredTensor& tensor) {
  if (tensor.shape.size() != tensor.strides.size()) return false;
  for (const int64_t dim : tensor.shape)
    if (dim == 0) return true;
  const Shape packed = RowMajorStrides(tensor.shape);
  for (size_t i = 0; i < packed.size(); ++i)
    if (tensor.shape[i] != 1 && tensor.strides[i] != packed[i]) return false;
  return true;
}

std::shared_ptr<const Storage> FileStorage(std::shared_ptr<const File> file, uint64_t offset,
                                           uint64_t bytes) {
  return std::make_shared<FileRange>(std::move(file), offset, bytes);
}

}  // namespace nxdkit
