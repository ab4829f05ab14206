// The place of a tensor's bytes, whatever the file format: returned by the format readers, and read
// by the plan engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/system/file.h"
#include "lib/system/file_cache.h"
#include "lib/tensor/dtype.h"

namespace nxdkit {

class CheckedStorage;  // lib/tensor/checked_storage.h

// A byte range that can be read at random: a piece of a file, or something inflated on demand.
// Thread-safe: ReadAt may be called from several threads.
class Storage {
 public:
  virtual ~Storage() = default;
  virtual uint64_t bytes() const = 0;
  // Fills all of `to` from `offset`; an error if the range is not inside the storage.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> to) const = 0;
  virtual const std::string& path() const = 0;  // for messages
  // The position of the storage's first byte in the file at path(), for messages and --explain.
  virtual uint64_t file_offset() const = 0;
  // Whether the storage is exactly the bytes of the file from file_offset() on.
  virtual bool is_file_range() const { return false; }
  // Whether the bytes are in the caller's memory: path() is then only a name.
  virtual bool is_borrowed() const { return false; }
  // The storage itself if it has a checksum, which is compared while it is read; else null.
  virtual const CheckedStorage* checked() const { return nullptr; }
};

// One tensor of a file. Element [i0, i1, ...] is at
//   storage byte  offset + ElementBytes * (i0 * strides[0] + i1 * strides[1] + ...).
// Readers check that every element is inside the storage. Sub-byte dtypes are always packed
// row-major from `offset`.
struct StoredTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  Shape strides;        // in elements, never negative
  uint64_t offset = 0;  // bytes from the start of the storage
  bool big_endian = false;
  std::shared_ptr<const Storage> storage;  // shared: views of one storage, read by many threads
};

bool IsPacked(const StoredTensor& tensor);  // row-major without gaps

// The number in a tensor without dimensions. kUnsupported for big-endian and sub-byte elements.
Result<double> ReadScalar(const StoredTensor& tensor);

// The same for a tensor of one element, whatever its dimensions. kCorrupt for another count.
Result<double> ReadSingle(StoredTensor tensor);

// A number as torch stores an optimizer's step: a tensor without dimensions in F32, in memory.
StoredTensor ScalarTensor(std::string name, double value, std::string path);

// Whether all bytes of a packed tensor from a row on are zero.
Result<bool> IsZeroFrom(const StoredTensor& tensor, int64_t row);

// The part [offset, offset + bytes) of a file; the file stays open as long as the storage lives.
std::shared_ptr<const Storage> FileStorage(std::shared_ptr<const File> file, uint64_t offset,
                                           uint64_t bytes);

// The same bytes of a file that is opened only while it is read: a set may have more files than a
// process may open. `storage` itself if it is not a part of a file.
std::shared_ptr<const Storage> Reopened(std::shared_ptr<const Storage> storage,
                                        std::shared_ptr<FileCache> cache);
// Bytes in memory; `path` is for messages.
std::shared_ptr<const Storage> InMemoryStorage(std::string bytes, std::string path);
// Bytes that the caller owns, who keeps them in place, readable from several threads, as long as
// the storage lives. `name` is for messages.
std::shared_ptr<const Storage> BorrowedStorage(std::span<const std::byte> bytes, std::string name);

// The format of tensors in the caller's memory, which are no file. The path is their name.
inline constexpr std::string_view kInMemory = "memory";

// A file of named tensors, as every format reader returns it, in the order of the file's own index.
struct TensorFile {
  std::string path;
  std::string format;  // "safetensors", "torch zip", "torch legacy", kInMemory
  uint64_t file_bytes = 0;
  std::vector<StoredTensor> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;  // safetensors __metadata__, sorted
};

}  // namespace nxdkit
