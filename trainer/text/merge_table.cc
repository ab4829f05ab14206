#include "trainer/text/merge_table.h"

#include <algorithm>
#include <bit>

namespace nxdkit::trainer {
namespace {

uint64_t KeyOf(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

uint64_t Mix(uint64_t key) {
  key ^= key >> 33;
  key *= 0xff51afd7ed558ccd;  // the finalizer of MurmurHash3
  key ^= key >> 33;
  key *= 0xc4ceb9fe1a85ec53;
  return key ^ key >> 33;
}

}  // namespace

MergeTable::MergeTable(size_t most) : slots_(std::bit_ceil(std::max<size_t>(2, most * 2))) {}

size_t MergeTable::SlotOf(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = Mix(key) & mask;
  while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::Insert(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = KeyOf(left, right);
  slots_[SlotOf(key)] = {key, merge};
}

const Merge* MergeTable::Find(int32_t left, int32_t right) const {
  const Slot& slot = slots_[SlotOf(KeyOf(left, right))];
  return slot.key == kEmpty ? nullptr : &slot.merge;
}

}  // namespace nxdkit::trainer
