#include "lib/tree_digest.h"

#include <bit>

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

// As deep as the logarithm of the number of leaves.
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
