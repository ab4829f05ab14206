#include "formats/artifact/infinities.h"

#include <fmt/core.h>

#include <cstring>

namespace nxdkit::ops {
namespace {

constexpr size_t kNamed = 5;

// Elements whose bits without the sign are `infinity`.
template <typename Bits>
uint64_t Count(std::span<const std::byte> bytes, Bits infinity) {
  uint64_t count = 0;
  for (size_t at = 0; at + sizeof(Bits) <= bytes.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + at, sizeof(Bits));
    count += static_cast<Bits>(bits << 1) == static_cast<Bits>(infinity << 1);
  }
  return count;
}

uint64_t CountInfinities(Dtype dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case Dtype::kF16:
      return Count<uint16_t>(bytes, 0x7c00);
    case Dtype::kBF16:
      return Count<uint16_t>(bytes, 0x7f80);
    case Dtype::kF32:
      return Count<uint32_t>(bytes, 0x7f800000);
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
