#include "lib/tensor/checked_storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "lib/base/parallel.h"
#include "lib/hash/crc32.h"

namespace nxdkit {
namespace {

std::string SomeBytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * i >> 3);
  return bytes;
}

std::shared_ptr<const CheckedStorage> Checked(const std::string& stored, const std::string& meant) {
  return std::make_shared<CheckedStorage>(InMemoryStorage(stored, "x.pt"),
                                          Crc32(0, std::as_bytes(std::span(meant))), "x/data/3");
}

Status Read(const Storage& storage, uint64_t offset, size_t bytes) {
  std::vector<std::byte> to(bytes);
  return storage.ReadAt(offset, to);
}

constexpr size_t kBytes = 700'001;  // several steps of a read, and a rest

class CheckedStorageTest : public ::testing::Test {
 protected:
  const std::string good_ = SomeBytes(kBytes);
  std::string Flipped(size_t at) const {
    std::string bytes = good_;
    bytes[at] ^= 1;
    return bytes;
  }
};

TEST_F(CheckedStorageTest, TheReadThatCompletesTheBytesFindsTheDamage) {
  const auto storage = Checked(Flipped(5), good_);
  EXPECT_TRUE(Read(*storage, 400'000, kBytes - 400'000).ok());
  EXPECT_TRUE(Read(*storage, 0, 399'999).ok()) << "one byte is missing, and nothing known";
  EXPECT_FALSE(storage->is_proved());
  const Status last = Read(*storage, 399'000, 2000);
  ASSERT_FALSE(last.ok());
  EXPECT_EQ(last.error().code(), Errc::kCorrupt);
  EXPECT_EQ(last.error().file(), "x.pt");
  EXPECT_EQ(last.error().member(), "x/data/3");
  EXPECT_EQ(last.error().message().substr(0, 20), "the data has CRC-32 ");
  EXPECT_FALSE(Read(*storage, 7, 1).ok()) << "and so does each later read";
}

TEST_F(CheckedStorageTest, GoodBytesAreProvedInAnyOrderAndReadTwice) {
  const auto storage = Checked(good_, good_);
  for (const size_t at : {600'000u, 0u, 300'000u, 200'000u, 100'000u, 400'000u})
    EXPECT_TRUE(Read(*storage, at, std::min<size_t>(kBytes - at, 200'000)).ok()) << at;
  EXPECT_TRUE(storage->is_proved());
  EXPECT_EQ(storage->seen_bytes(), kBytes);
}

TEST_F(CheckedStorageTest, ProveReadsWhatIsLeft) {
  const auto good = Checked(good_, good_);
  EXPECT_TRUE(Read(*good, 100, 1000).ok());
  EXPECT_TRUE(Read(*good, 5000, 1000).ok());
  EXPECT_EQ(good->seen_bytes(), 2000u);
  EXPECT_TRUE(good->Prove().ok());
  EXPECT_TRUE(good->is_proved());
  const auto damaged = Checked(Flipped(kBytes - 1), good_);
  EXPECT_TRUE(Read(*damaged, 0, 1000).ok());
  const Status proof = damaged->Prove();
  ASSERT_FALSE(proof.ok());
  EXPECT_EQ(proof.error().member(), "x/data/3");
}

TEST_F(CheckedStorageTest, ADeferredFaultIsProvesAlone) {
  const auto storage = Checked(Flipped(5), good_);
  storage->Defer();
  EXPECT_TRUE(Read(*storage, 0, kBytes).ok());
  EXPECT_FALSE(storage->is_proved());
  EXPECT_FALSE(storage->Prove().ok());
}

TEST_F(CheckedStorageTest, ManyThreadsMaySeeTheSameBytes) {
  for (const bool flipped : {false, true}) {
    const auto storage = Checked(flipped ? Flipped(650'000) : good_, good_);
    storage->Defer();
    const Status read = ParallelFor(4000, 8, [&](size_t i) {
      const uint64_t at = (i * 7919) % (kBytes - 5000);
      return Read(*storage, at, 5000);
    });
    EXPECT_TRUE(read.ok());
    EXPECT_EQ(storage->Prove().ok(), !flipped);
  }
}

// So many separate parts are not kept; the proof reads them again.
TEST_F(CheckedStorageTest, ScatteredReadsAreProvedTooAndTakeBoundedMemory) {
  const auto storage = Checked(good_, good_);
  for (uint64_t at = 0; at + 10 <= kBytes; at += 20) EXPECT_TRUE(Read(*storage, at, 10).ok());
  EXPECT_LE(storage->seen_bytes(), 16384u * 10);
  EXPECT_TRUE(storage->Prove().ok());
}

TEST_F(CheckedStorageTest, AReadBeyondTheEndIsRefused) {
  const auto storage = Checked(good_, good_);
  EXPECT_FALSE(Read(*storage, kBytes, 1).ok());
  EXPECT_EQ(storage->seen_bytes(), 0u);
}

}  // namespace
}  // namespace nxdkit
