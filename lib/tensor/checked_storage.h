// Bytes with a CRC-32 in their format, such as a record of a zip archive, checked while they are
// read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "lib/hash/piecewise_crc32.h"
#include "lib/tensor/tensor.h"

namespace nxdkit {

// kCorrupt, with the value found and the value recorded; the caller adds the place.
Status CompareCrc32(uint32_t found, uint32_t recorded);

// Every byte is hashed when it is read for the first time. The read that completes the bytes, and
// each later one, fails if they differ from the recorded ones; until then nothing is verified. The
// error names file, member and offset. Thread-safe.
class CheckedStorage : public Storage {
 public:
  // `member` names the bytes within their file, for messages.
  CheckedStorage(std::shared_ptr<const Storage> bytes, uint32_t crc, std::string member)
      : bytes_(std::move(bytes)), crc_(crc), member_(std::move(member)) {}

  uint64_t bytes() const override { return bytes_->bytes(); }
  const std::string& path() const override { return bytes_->path(); }
  uint64_t file_offset() const override { return bytes_->file_offset(); }
  bool is_file_range() const override { return bytes_->is_file_range(); }
  const CheckedStorage* checked() const override { return this; }
  Status ReadAt(uint64_t offset, std::span<std::byte> to) const override;

  const std::string& member() const { return member_; }
  uint32_t crc() const { return crc_; }
  // The number of bytes read; all of them, once the checksum was compared.
  uint64_t seen_bytes() const;
  // Whether all were read and match the checksum.
  bool is_proved() const { return state_ == State::kProved; }
  Status Prove() const;  // reads all bytes that were not read yet
  // From now on only Prove fails: for callers that want to see everything that is wrong.
  void Defer() const { deferred_ = true; }

 private:
  enum class State : uint8_t { kOpen, kProved, kDamaged };
  Status Settle(uint32_t found) const;
  // Continues `crc` over [begin, end), which is read.
  Status Hash(uint64_t begin, uint64_t end, uint32_t& crc) const;

  std::shared_ptr<const Storage> bytes_;
  uint32_t crc_;
  std::string member_;
  mutable std::atomic<State> state_ = State::kOpen;
  mutable std::atomic<bool> deferred_ = false;
  mutable std::mutex mutex_;
  mutable PiecewiseCrc32 seen_;  // guarded by mutex_
};

}  // namespace nxdkit
