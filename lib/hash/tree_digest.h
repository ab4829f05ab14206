// PRIVATE: a hash tree over the bytes of one tensor: fixed leaves, so that threads can share a
// tensor and one leaf can be checked alone. Leaves and nodes are hashed with different first bytes,
// so that neither can pass for the other. The same tree as in RFC 6962 (certificate transparency).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "lib/hash/digest.h"

namespace nxdkit {

// Every leaf but the last of a tensor has this many bytes. A multiple of all element sizes.
inline constexpr uint64_t kLeafBytes = 1 << 20;

uint64_t LeafCount(uint64_t bytes);  // 0 for 0 bytes

Sha256Bytes LeafDigest(std::span<const std::byte> bytes);  // SHA-256(00 | bytes)
// The digests of two leaves, twice as fast as one after the other on processors with SHA
// instructions.
std::array<Sha256Bytes, 2> LeafDigestPair(std::span<const std::byte> a,
                                          std::span<const std::byte> b);
// The digests of all leaves of `bytes`, which starts at a leaf; leaves.size() is LeafCount of them.
void LeafDigests(std::span<const std::byte> bytes, std::span<Sha256Bytes> leaves);

// The root of no leaf is the SHA-256 of nothing; of one, the leaf; of more, SHA-256(01 | left |
// right), where left is the root of the first 2^k leaves, the largest power of two below their
// number.
Sha256Bytes TreeRoot(std::span<const Sha256Bytes> leaves);

}  // namespace nxdkit
