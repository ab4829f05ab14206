// The CRC-32 of a byte range whose parts are seen in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace nxdkit {

// Neighbours are merged, so that parts that come more or less in order take no memory. Not
// thread-safe.
class PiecewiseCrc32 {
 public:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  struct Part {
    uint64_t begin = 0;
    uint64_t bytes = 0;
    uint32_t crc = 0;
  };

  // Adds `bytes` bytes from `begin` on, with their CRC. Returns false, and adds nothing, if some of
  // them were added before.
  bool Add(uint64_t begin, uint64_t bytes, uint32_t crc);
  // The parts of [begin, end) that were not added, ascending.
  std::vector<Range> Missing(uint64_t begin, uint64_t end) const;
  // The bytes from 0 up to the first one that was not added.
  Part FromStart() const;

  std::vector<Part> All() const;  // ascending
  size_t size() const { return parts_.size(); }
  uint64_t bytes() const { return bytes_; }  // of all parts

 private:
  using Map = std::map<uint64_t, Part>;  // by where they begin
  void MergeWithNext(Map::iterator part);
  Map parts_;
  uint64_t bytes_ = 0;
};

}  // namespace nxdkit
