// The layout of an output file, decided before the first byte is written: so that many threads can
// write tensor data at once and in any order, and no tensor is ever held whole.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/tensor/dtype.h"

namespace nxdkit {

// A tensor to be written: always packed, row-major, little-endian.
struct OutputTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
};

// Bytes at a place in the file.
struct Fragment {
  uint64_t offset = 0;
  std::string bytes;
};

// The plan of one file of tensors. Immutable once made; thread-safe.
class FileEncoder {
 public:
  virtual ~FileEncoder() = default;
  virtual const std::vector<OutputTensor>& tensors() const = 0;  // in the order they were given
  virtual uint64_t file_bytes() const = 0;
  // Offset of the data of tensor `index` (as in tensors()) from the start of the file.
  virtual uint64_t data_offset(size_t index) const = 0;
  // Whether Frame needs the CRC-32 (zlib polynomial) of each tensor's data.
  virtual bool needs_crc() const = 0;
  // All bytes that are not tensor data (headers, padding, directory). `crcs[i]` belongs to
  // tensors()[i]; empty when !needs_crc(). Written last, so an unfinished file is never valid.
  virtual std::vector<Fragment> Frame(std::span<const uint32_t> crcs) const = 0;
  // The same one by one, since there may be too many to hold at once. Ends with the error of
  // `take`.
  using TakeFragment = std::function<Status(uint64_t offset, std::span<const std::byte> bytes)>;
  virtual Status ForEachFragment(std::span<const uint32_t> crcs, const TakeFragment& take) const {
    for (const Fragment& fragment : Frame(crcs))
      NXDKIT_TRY(take(fragment.offset, std::as_bytes(std::span(fragment.bytes))));
    return OkStatus();
  }
};

}  // namespace nxdkit
