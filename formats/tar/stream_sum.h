// PRIVATE to formats/tar: the checksum of a plain archive, which has none of its own: a record of
// ours behind its end, where POSIX lets an archive have bytes that nobody looks at. Facts:
// FORMAT.md beside this file.
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
  // What is written behind all that was added.
  std::array<std::byte, kRecordBytes> Record() const;

 private:
  uint32_t crc_ = 0;
  uint64_t bytes_ = 0;
};

// An archive as it is read, uncompressed: whether what comes last is the record, and agrees.
class StreamCheck {
 public:
  void Add(std::span<const std::byte> bytes);
  // After all of it: whether there was a record. `end` is where the archive ends, by its zeros.
  // kCorrupt for another sum, and for bytes behind the end that are neither zeros nor a record.
  Result<bool> Finish(uint64_t end) const;

 private:
  void Sum(std::span<const std::byte> bytes);

  StreamSum sum_;  // of all but what may be the record
  std::array<std::byte, kRecordBytes> last_{};
  size_t held_ = 0;          // bytes of last_
  uint64_t after_data_ = 0;  // one past the last byte of sum_ that is not zero
};

}  // namespace nxdkit::tar
