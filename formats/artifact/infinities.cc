#include "formats/artifact/infinities.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "lib/base/simd.h"

namespace nxdkit::ops {
namespace {

constexpr size_t kNamed = 5;

// Elements whose bits without the sign are `infinity`. Counts of a block fit the element's own
// type: vectors of them need not be widened.
template <typename Bits>
NXDKIT_INLINE uint64_t Count(std::span<const std::byte> bytes, Bits infinity) {
  constexpr size_t kBlock = 16384;
  const size_t size = bytes.size() / sizeof(Bits);
  uint64_t count = 0;
  for (size_t first = 0; first < size; first += kBlock) {
    const size_t end = std::min(first + kBlock, size);
    Bits found = 0;
    for (size_t i = first; i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
      found = static_cast<Bits>(found +
                                (static_cast<Bits>(bits << 1) == static_cast<Bits>(infinity << 1)));
    }
    count += found;
  }
  return count;
}

NXDKIT_CLONES uint64_t CountHalves(std::span<const std::byte> bytes, uint16_t infinity) {
  return Count<uint16_t>(bytes, infinity);
}

NXDKIT_CLONES uint64_t CountWords(std::span<const std::byte> bytes, uint32_t infinity) {
  return Count<uint32_t>(bytes, infinity);
}

uint64_t CountInfinities(Dtype dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case Dtype::kF16:
      return CountHalves(bytes, 0x7c00);
    case Dtype::kBF16:
      return CountHalves(bytes, 0x7f80);
    case Dtype::kF32:
      return CountWords(bytes, 0x7f800000);
    default:
      return 0;
  }
}

}  // namespace

InfinityCounter::InfinityCounter(Sink& next, const Plan& plan, const BoundLayout& source,
                                 const std::vector<OutputTensor>& outputs)
    : next_(next), outputs_(outputs), converted_(outputs.size()), counts_(outputs.size()) {
  for (size_t t = 0; t < outputs.size(); ++t)
    for (const CopyOp& op : plan.tensors[t].copies)
      if (source.stored[op.source].dtype != outputs[t].dtype) converted_[t] = true;
}

Status InfinityCounter::Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
  if (converted_[tensor]) {
    const uint64_t count = CountInfinities(outputs_[tensor].dtype, bytes);
    if (count > 0) {
      const std::lock_guard lock(mutex_);
      counts_[tensor] += count;
    }
  }
  return next_.Take(tensor, offset, bytes);
}

std::vector<std::string> InfinityCounter::Warnings() const {
  std::vector<std::string> warnings;
  size_t more = 0;
  for (size_t t = 0; t < counts_.size(); ++t) {
    if (counts_[t] == 0) continue;
    if (warnings.size() == kNamed) {
      ++more;
      continue;
    }
    warnings.push_back(fmt::format("{}: {} element{} infinite as {}", outputs_[t].name, counts_[t],
                                   counts_[t] == 1 ? " is" : "s are", Name(outputs_[t].dtype)));
  }
  if (more > 0)
    warnings.push_back(
        fmt::format("{} more tensors have infinite elements: ckpt-inspect --stats "
                    "counts them",
                    more));
  return warnings;
}

}  // namespace nxdkit::ops
