// PRIVATE to formats/tar: the checksum of a plain archive, which has none of its own: a record of
// ours after its end, where POSIX allows bytes that readers ignore. Facts: FORMAT.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/error.h"

namespace nxdkit::tar {

inline constexpr size_t kRecordBytes = 512;

// CRC-32 and size of a stream.
class StreamSum {
 public:
  void Add(std::span<const std::byte> bytes);
  uint64_t bytes() const { return bytes_; }
  // The record for everything added, to be written after it.
  std::array<std::byte, kRecordBytes> Record() const;

 private:
  uint32_t crc_ = 0;
  uint64_t bytes_ = 0;
};

// Checks whether an uncompressed archive ends with the record, and whether it is right.
class StreamCheck {
 public:
  void Add(std::span<const std::byte> bytes);
  // Call after all bytes: whether there was a record. `end` is the end of the archive, by its
  // zeros. kCorrupt for another sum, and for bytes after the end that are neither zeros nor a
  // record.
  Result<bool> Finish(uint64_t end) const;

 private:
  void Sum(std::span<const std::byte> bytes);

  StreamSum sum_;  // of all bytes except a possible record
  std::array<std::byte, kRecordBytes> last_{};
  size_t held_ = 0;          // bytes of last_
  uint64_t after_data_ = 0;  // one past the last byte of sum_ that is not zero
};

}  // namespace nxdkit::tar
