#include "lib/hash/tree_digest.h"

#include <algorithm>
#include <bit>

#include "lib/base/error.h"
#include "lib/hash/sha256_pair.h"

namespace nxdkit {
namespace {

constexpr std::byte kLeafMark[] = {std::byte{0}};
constexpr std::byte kNodeMark[] = {std::byte{1}};

}  // namespace

uint64_t LeafCount(uint64_t bytes) { return bytes / kLeafBytes + (bytes % kLeafBytes != 0); }

Sha256Bytes LeafDigest(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.Update(kLeafMark);
  sha.Update(bytes);
  return sha.Finish();
}

std::array<Sha256Bytes, 2> LeafDigestPair(std::span<const std::byte> a,
                                          std::span<const std::byte> b) {
  return Sha256Pair(kLeafMark[0], a, b);
}

void LeafDigests(std::span<const std::byte> bytes, std::span<Sha256Bytes> leaves) {
  NXDKIT_CHECK(leaves.size() == LeafCount(bytes.size()));
  const auto leaf = [&](size_t i) {
    const std::span<const std::byte> rest = bytes.subspan(i * kLeafBytes);
    return rest.first(std::min<size_t>(rest.size(), kLeafBytes));
  };
  size_t i = 0;
  for (; i + 2 <= leaves.size(); i += 2) {
    const std::array<Sha256Bytes, 2> pair = LeafDigestPair(leaf(i), leaf(i + 1));
    std::ranges::copy(pair, leaves.begin() + static_cast<ptrdiff_t>(i));
  }
  if (i < leaves.size()) leaves[i] = LeafDigest(leaf(i));
}

// The depth is the logarithm of the number of leaves.
Sha256Bytes TreeRoot(std::span<const Sha256Bytes> leaves) {
  Sha256 sha;
  if (leaves.empty()) return sha.Finish();
  if (leaves.size() == 1) return leaves.front();
  const size_t left = std::bit_floor(leaves.size() - 1);
  sha.Update(kNodeMark);
  sha.Update(TreeRoot(leaves.first(left)));
  sha.Update(TreeRoot(leaves.subspan(left)));
  return sha.Finish();
}

}  // namespace nxdkit
