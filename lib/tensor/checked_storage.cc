#include "lib/tensor/checked_storage.h"

#include <algorithm>
#include <vector>

#include "lib/base/errors.h"
#include "lib/hash/crc32.h"
#include "lib/system/page_buffer.h"

namespace nxdkit {
namespace {

// Bytes are read and hashed in steps that stay in the second-level cache, and are not small for a
// disk.
constexpr uint64_t kStepBytes = 1 << 20;
// Beyond this, separate parts are not remembered: they are read again when everything is to be
// verified.
constexpr size_t kMaxParts = 16384;

// A part of a read that is hashed, with its CRC as far as it has been read.
struct Hashed {
  PiecewiseCrc32::Range range;
  uint32_t crc = 0;
};

void HashStep(uint64_t offset, std::span<const std::byte> step, std::vector<Hashed>& parts) {
  const uint64_t end = offset + step.size();
  for (Hashed& part : parts) {
    const uint64_t from = std::max(offset, part.range.begin);
    const uint64_t to = std::min(end, part.range.end);
    if (from < to) part.crc = Crc32(part.crc, step.subspan(from - offset, to - from));
  }
}

}  // namespace

Status CompareCrc32(uint32_t found, uint32_t recorded) {
  if (found == recorded) return OkStatus();
  return Corrupt("the data has CRC-32 {:08x}, the directory says {:08x}", found, recorded);
}

Status CheckedStorage::ReadAt(uint64_t offset, std::span<std::byte> to) const {
  if (state_ == State::kProved) return bytes_->ReadAt(offset, to);
  if (offset > bytes() || to.size() > bytes() - offset) return bytes_->ReadAt(offset, to);
  std::vector<Hashed> parts;
  {
    const std::lock_guard lock(mutex_);
    for (const PiecewiseCrc32::Range& range : seen_.Missing(offset, offset + to.size()))
      parts.push_back({range});
  }
  for (uint64_t at = 0; at < to.size(); at += kStepBytes) {
    const auto step = to.subspan(at, std::min<uint64_t>(kStepBytes, to.size() - at));
    NXDKIT_TRY(bytes_->ReadAt(offset + at, step));
    HashStep(offset + at, step, parts);
  }
  const std::lock_guard lock(mutex_);
  if (seen_.size() < kMaxParts)
    for (const auto& [range, crc] : parts) seen_.Add(range.begin, range.end - range.begin, crc);
  const PiecewiseCrc32::Part all = seen_.FromStart();
  if (all.bytes != bytes()) return OkStatus();
  Status settled = Settle(all.crc);
  return deferred_ ? OkStatus() : settled;
}

// Called with the lock held.
Status CheckedStorage::Settle(uint32_t found) const {
  Status same = CompareCrc32(found, crc_);
  state_ = same.ok() ? State::kProved : State::kDamaged;
  return std::move(same).in(path()).member(member_).at(file_offset());
}

uint64_t CheckedStorage::seen_bytes() const {
  if (state_ != State::kOpen) return bytes();
  const std::lock_guard lock(mutex_);
  return seen_.bytes();
}

Status CheckedStorage::Hash(uint64_t begin, uint64_t end, uint32_t& crc) const {
  if (begin == end) return OkStatus();
  const PageBuffer buffer(std::min(kStepBytes, end - begin) + kPageBytes);
  for (uint64_t at = begin; at < end;) {
    const auto step = buffer.InStep(file_offset() + at, std::min(kStepBytes, end - at));
    NXDKIT_TRY(bytes_->ReadAt(at, step));
    crc = Crc32(crc, step);
    at += step.size();
  }
  return OkStatus();
}

Status CheckedStorage::Prove() const {
  if (is_proved()) return OkStatus();
  std::vector<PiecewiseCrc32::Part> seen;
  {
    const std::lock_guard lock(mutex_);
    seen = seen_.All();
  }
  uint32_t crc = 0;
  uint64_t done = 0;
  for (const PiecewiseCrc32::Part& part : seen) {
    NXDKIT_TRY(Hash(done, part.begin, crc));
    crc = part.begin == 0 ? part.crc : Crc32Combine(crc, part.crc, part.bytes);
    done = part.begin + part.bytes;
  }
  NXDKIT_TRY(Hash(done, bytes(), crc));
  const std::lock_guard lock(mutex_);
  return Settle(crc);
}

}  // namespace nxdkit
