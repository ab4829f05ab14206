// Which pairs of tokens merge, how early, and into what: a hash table of fixed size.
#pragma once

#include <algorithm>
#include <bit>
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
  explicit MergeTable(size_t most) : slots_(std::bit_ceil(std::max<size_t>(2, most * 2))) {}

  // The last one of equal pairs counts. Ids are not negative. At most `most` pairs fit.
  void Insert(int32_t left, int32_t right, Merge merge) {
    const uint64_t key = KeyOf(left, right);
    slots_[SlotOf(key)] = {key, merge};
  }
  const Merge* Find(int32_t left, int32_t right) const {
    const Slot& slot = slots_[SlotOf(KeyOf(left, right))];
    return slot.key == kEmpty ? nullptr : &slot.merge;
  }

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  static uint64_t KeyOf(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  // The finalizer of MurmurHash3.
  static uint64_t Mix(uint64_t key) {
    key = (key ^ key >> 33) * 0xff51afd7ed558ccd;
    key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53;
    return key ^ key >> 33;
  }
  // Of the key, or the empty one where it would go.
  size_t SlotOf(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = Mix(key) & mask;
    while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask;
    return slot;
  }

  std::vector<Slot> slots_;  // a power of two
};

}  // namespace nxdkit::trainer
