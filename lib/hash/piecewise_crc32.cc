#include "lib/hash/piecewise_crc32.h"

#include <algorithm>
#include <iterator>

#include "lib/hash/crc32.h"

namespace nxdkit {

bool PiecewiseCrc32::Add(uint64_t begin, uint64_t bytes, uint32_t crc) {
  if (bytes == 0) return true;
  if (bytes > UINT64_MAX - begin) return false;
  const auto after = parts_.lower_bound(begin);
  if (after != parts_.end() && after->first - begin < bytes) return false;
  const bool has_before = after != parts_.begin();
  if (has_before) {
    const Part& before = std::prev(after)->second;
    if (begin - before.begin < before.bytes) return false;
  }
  const auto added = parts_.emplace_hint(after, begin, Part{begin, bytes, crc});
  bytes_ += bytes;
  MergeWithNext(added);
  if (has_before) MergeWithNext(std::prev(added));
  return true;
}

void PiecewiseCrc32::MergeWithNext(Map::iterator part) {
  const auto next = std::next(part);
  if (next == parts_.end() || part->second.begin + part->second.bytes != next->first) return;
  part->second.crc = Crc32Combine(part->second.crc, next->second.crc, next->second.bytes);
  part->second.bytes += next->second.bytes;
  parts_.erase(next);
}

std::vector<PiecewiseCrc32::Range> PiecewiseCrc32::Missing(uint64_t begin, uint64_t end) const {
  std::vector<Range> missing;
  auto part = parts_.upper_bound(begin);
  if (part != parts_.begin()) --part;
  for (; part != parts_.end() && part->first < end; ++part) {
    if (part->first > begin) missing.push_back({begin, part->first});
    begin = std::max(begin, part->first + part->second.bytes);
  }
  if (begin < end) missing.push_back({begin, end});
  return missing;
}

PiecewiseCrc32::Part PiecewiseCrc32::FromStart() const {
  const auto first = parts_.begin();
  return first != parts_.end() && first->first == 0 ? first->second : Part{};
}

std::vector<PiecewiseCrc32::Part> PiecewiseCrc32::All() const {
  std::vector<Part> all;
  for (const auto& [begin, part] : parts_) all.push_back(part);
  return all;
}

}  // namespace nxdkit
