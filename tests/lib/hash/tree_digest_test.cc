// The hash tree, compared with values made with Python's hashlib, and with its own definition.
#include "lib/hash/tree_digest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nxdkit {
namespace {

std::vector<std::byte> Pattern(size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>((i * i + i / 251) & 0xff);
  return out;
}

std::vector<Sha256Bytes> Leaves(std::span<const std::byte> bytes) {
  std::vector<Sha256Bytes> leaves;
  for (uint64_t i = 0; i < LeafCount(bytes.size()); ++i) {
    const std::span rest = bytes.subspan(i * kLeafBytes);
    leaves.push_back(LeafDigest(rest.first(std::min<size_t>(rest.size(), kLeafBytes))));
  }
  return leaves;
}

struct KnownTree {
  size_t bytes;
  const char* root;
};
// Digests of the first bytes of Pattern; each row has another shape of the tree.
constexpr KnownTree kKnown[] = {
    {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {(1 << 20) - 1, "a1b9faddd88ad9d1145984a83ea06871b8e95e992e9af35209174bbf303fc822"},
    {1 << 20, "24228ad762ceba2b2973b01440bb9312b83cd8cf4e037cfcfa22eb7fe4f5122a"},
    {(1 << 20) + 1, "f6a9c27d9ac610302c26fa122fecfebd432093473565d2316df035df15ba55f9"},
    {2 << 20, "7d8d91bef65225250325d781c642063b334d6825424eeee8b29d33ba25fe99f9"},
    {3 << 20, "f89c2ba2cb7dd51a1b73d72c5d88a7add98f34e48271dbd5edf72195a1fd4271"},
    {(5 << 20) + 7, "635263dce90e262633560deef8da809f0ede621770d9d8de7fd75e4281ef15a9"},
};

TEST(TreeDigest, KnownValues) {
  const std::vector<std::byte> pattern = Pattern((5 << 20) + 7);
  for (const KnownTree& known : kKnown)
    EXPECT_EQ(HexText(TreeRoot(Leaves(std::span(pattern).first(known.bytes)))), known.root)
        << known.bytes;
}

// Pairs, and a last leaf alone, equal the leaves one by one.
TEST(TreeDigest, LeavesTogetherAreThoseOneByOne) {
  const std::vector<std::byte> pattern = Pattern((5 << 20) + 7);
  for (const KnownTree& known : kKnown) {
    const std::span bytes = std::span(pattern).first(known.bytes);
    std::vector<Sha256Bytes> together(LeafCount(bytes.size()));
    LeafDigests(bytes, together);
    EXPECT_EQ(together, Leaves(bytes)) << known.bytes;
  }
}

TEST(TreeDigest, CountsLeaves) {
  EXPECT_EQ(LeafCount(0), 0u);
  EXPECT_EQ(LeafCount(1), 1u);
  EXPECT_EQ(LeafCount(kLeafBytes), 1u);
  EXPECT_EQ(LeafCount(kLeafBytes + 1), 2u);
  EXPECT_EQ(LeafCount(UINT64_MAX), (uint64_t{1} << 44));
}

// The separation of leaves and nodes: the bytes of two digests as a leaf are not their node.
TEST(TreeDigest, NoLeafIsANode) {
  const std::vector<Sha256Bytes> leaves = {LeafDigest(Pattern(3)), LeafDigest(Pattern(4))};
  std::vector<std::byte> both(leaves[0].begin(), leaves[0].end());
  both.insert(both.end(), leaves[1].begin(), leaves[1].end());
  EXPECT_NE(HexText(TreeRoot(leaves)), HexText(LeafDigest(both)));
  EXPECT_NE(HexText(LeafDigest(both)), Sha256Hex(both));
}

// Eleven leaves are eight and three, and three are two and one.
TEST(TreeDigest, SplitsAtThePowerOfTwo) {
  std::vector<Sha256Bytes> leaves;
  for (size_t i = 1; i <= 11; ++i) leaves.push_back(LeafDigest(Pattern(i)));
  const std::span<const Sha256Bytes> all = leaves;
  const std::vector<Sha256Bytes> halves = {TreeRoot(all.first(8)), TreeRoot(all.last(3))};
  EXPECT_EQ(TreeRoot(all), TreeRoot(halves));
  const std::vector<Sha256Bytes> last = {TreeRoot(all.subspan(8, 2)), all.back()};
  EXPECT_EQ(TreeRoot(all.last(3)), TreeRoot(last));
}

}  // namespace
}  // namespace nxdkit
