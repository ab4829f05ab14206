// Which pairs of tokens merge, how early, and into what: a hash table of fixed size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nxdkit::trainer {

struct Merge {
  uint32_t rank = 0;  // the lowest is done first
  int32_t id = 0;     // of the token that comes out
};

// Filled once, then thread-safe. Open addressing, at most half full.
class MergeTable {
 public:
  explicit MergeTable(size_t most);

  // The last one of equal pairs counts. Ids are not negative. At most `most` pairs fit.
  void Insert(int32_t left, int32_t right, Merge merge);
  const Merge* Find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  size_t SlotOf(uint64_t key) const;  // of the key, or the empty one where it would go

  std::vector<Slot> slots_;  // a power of two
};

}  // namespace nxdkit::trainer
