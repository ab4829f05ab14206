#include "formats/neff/header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/formats/neff/neff_bytes.h"

namespace nxdkit::neff {
namespace {

using ::testing::HasSubstr;
using testing_util::AsBytes;
using testing_util::PlainNeff;
using testing_util::Put;
using testing_util::Scratch;
using testing_util::ToyNeff;

TEST(Headers, HaveTheirFields) {
  const std::string bytes = ToyNeff();
  const auto header = ParseHeader(AsBytes(bytes), bytes.size());
  ASSERT_TRUE(header.ok()) << header.error().ToString();
  EXPECT_EQ(header->package, 2u);
  EXPECT_EQ(header->data_bytes, bytes.size() - kHeaderBytes);
  EXPECT_EQ(header->major, 2u);
  EXPECT_EQ(header->minor, 0u);
  EXPECT_EQ(header->build, "2.21.33363.0+82129205");
  EXPECT_EQ(header->name, "toy");
  EXPECT_EQ(header->cores, 2u);
  EXPECT_EQ(header->features, 1u);
  EXPECT_EQ(header->lnc, 1u);
  EXPECT_EQ(UuidText(*header), "00010203-0405-0607-0809-0a0b0c0d0e0f");
  EXPECT_EQ(HashText(*header), "md5:79d3b943dbbc0f82f2c99922af53bc96");
}

TEST(Headers, TextsWithoutANulAreAsLongAsTheirField) {
  std::string bytes = ToyNeff();
  bytes.replace(40, 128, std::string(128, 'v'));
  bytes.replace(220, 256, std::string(256, 'n'));
  const auto header = ParseHeader(AsBytes(bytes), bytes.size());
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->build, std::string(128, 'v'));
  EXPECT_EQ(header->name, std::string(256, 'n'));
}

struct Wrong {
  const char* name;
  size_t offset;
  uint64_t value;
  const char* message;
};

class Headers : public ::testing::TestWithParam<Wrong> {};

TEST_P(Headers, NameTheFieldThatIsWrong) {
  std::string bytes = ToyNeff();
  Put(bytes, GetParam().offset, GetParam().value);
  const auto header = ParseHeader(AsBytes(bytes), bytes.size());
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.error().code(), Errc::kCorrupt);
  EXPECT_EQ(header.error().offset(), GetParam().offset);
  EXPECT_EQ(header.error().message(), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, Headers,
    ::testing::Values(Wrong{"Package", 0, 3, "package version 3 found, 1 or 2 expected"},
                      Wrong{"PackageHighByte", 0, uint64_t{2} | uint64_t{1} << 56,
                            "package version 72057594037927938 found, 1 or 2 expected"},
                      Wrong{"HeaderSize", 8, 512, "header size 512 found, 1024 expected"},
                      Wrong{"NoPayload", 16, 0, "data size 0: there is no payload"},
                      Wrong{"PastTheEnd", 16, 344,
                            "data size 344 is past the end: 343 bytes are left"},
                      Wrong{"WrapsAround", 16, ~uint64_t{0},
                            "data size 18446744073709551615 is past the end: 343 bytes are left"}),
    [](const auto& row) { return std::string(row.param.name); });

class Hashes : public ::testing::TestWithParam<bool> {};

TEST_P(Hashes, AreOfTheStoredPayload) {
  const Scratch scratch;
  std::string bytes = GetParam() ? ToyNeff() : PlainNeff();
  const auto matches = [&](const std::string& contents) {
    const Result<File> file = File::OpenRead(scratch.Write("x.neff", contents));
    const auto neff = ReadAt(*file, 0, file->bytes());
    EXPECT_TRUE(neff.ok()) << neff.error().ToString();
    return *HashMatches(*file, *neff);
  };
  EXPECT_TRUE(matches(bytes));
  EXPECT_TRUE(matches(bytes + "trailing bytes are none of it"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_FALSE(matches(bytes));
}

INSTANTIATE_TEST_SUITE_P(Packages, Hashes, ::testing::Bool());

std::vector<uint64_t> OffsetsIn(const std::string& contents, size_t most = 10) {
  const Scratch scratch;
  const Result<File> file = File::OpenRead(scratch.Write("blob", contents));
  const auto found = Find(*file, 0, file->bytes(), most);
  EXPECT_TRUE(found.ok()) << found.error().ToString();
  std::vector<uint64_t> offsets;
  if (found.ok())
    for (const Located& neff : *found) offsets.push_back(neff.offset);
  return offsets;
}

TEST(Scans, FindNeffsAtAnyOffset) {
  const std::string toy = ToyNeff();
  const std::string plain = PlainNeff();
  using ::testing::ElementsAre;
  EXPECT_THAT(OffsetsIn(toy), ElementsAre(0));
  EXPECT_THAT(OffsetsIn("abc" + toy + "de" + plain + toy),
              ElementsAre(3, 5 + toy.size(), 5 + toy.size() + plain.size()));
  EXPECT_THAT(OffsetsIn(""), ElementsAre());
  EXPECT_THAT(OffsetsIn(std::string(3000, '\0')), ElementsAre());
}

// Blocks of 1 MiB are read: headers across the seam are found whole, and once.
TEST(Scans, FindNeffsAcrossTheSeamOfTwoReads) {
  const std::string toy = ToyNeff();
  constexpr size_t kBlock = 1 << 20;
  for (const size_t at :
       {kBlock - 2800, kBlock - 2000, kBlock - 1367, kBlock - 1366, kBlock - 1286, kBlock - 1285,
        kBlock - 1024, kBlock - 16, kBlock - 15, kBlock - 8, kBlock - 1, kBlock, kBlock + 1})
    EXPECT_THAT(OffsetsIn(std::string(at, 'x') + toy + toy),
                ::testing::ElementsAre(at, at + toy.size()))
        << at;
}

TEST(Scans, PassOverWhatOnlyBeginsLikeOne) {
  std::string fake = ToyNeff();
  fake[kHeaderBytes] = 'x';  // not an archive
  std::string cut = ToyNeff();
  cut.resize(cut.size() - 1);
  std::string huge = ToyNeff();
  Put(huge, 16, ~uint64_t{0});
  EXPECT_THAT(OffsetsIn(fake + huge + ToyNeff() + cut),
              ::testing::ElementsAre(fake.size() + huge.size()));
}

TEST(Scans, NameDamagedHeadersWhenAsked) {
  const Scratch scratch;
  std::string fake = ToyNeff();
  fake[kHeaderBytes] = 'x';  // a chance similarity
  std::string huge = ToyNeff();
  Put(huge, 16, ~uint64_t{0});
  const Result<File> file = File::OpenRead(scratch.Write("blob", fake + huge + ToyNeff()));
  std::vector<Error> damaged;
  const auto found = Find(*file, 0, file->bytes(), 10, {}, &damaged);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->size(), 1u);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_EQ(damaged[0].code(), Errc::kCorrupt);
  EXPECT_EQ(damaged[0].offset(), fake.size() + 16);
  EXPECT_THAT(damaged[0].message(), HasSubstr("is past the end"));
}

TEST(Scans, EndAtTheLimit) {
  const Scratch scratch;
  const Result<File> file = File::OpenRead(scratch.Write("blob", ToyNeff() + ToyNeff()));
  const auto found = Find(*file, 0, file->bytes(), 1);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code(), Errc::kLimit);
  EXPECT_THAT(found.error().message(), HasSubstr("more than 1 NEFFs"));
}

TEST(Scans, AreStopped) {
  const Scratch scratch;
  const Result<File> file = File::OpenRead(scratch.Write("blob", ToyNeff()));
  const auto found =
      Find(*file, 0, file->bytes(), 10, [] { return Status(Error(Errc::kInterrupted, "stop")); });
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code(), Errc::kInterrupted);
}

// Every length and every flipped bit of the header: an error with its place, or a consistent
// header.
TEST(Sweeps, EveryCutIsRefused) {
  const Scratch scratch;
  const std::string whole = ToyNeff();
  for (size_t size = 0; size < whole.size(); ++size) {
    const Result<File> file = File::OpenRead(scratch.Write("cut", whole.substr(0, size)));
    const auto neff = ReadAt(*file, 0, file->bytes());
    ASSERT_FALSE(neff.ok()) << size;
    EXPECT_EQ(neff.error().code(), Errc::kCorrupt) << size;
    EXPECT_TRUE(neff.error().offset().has_value() && *neff.error().offset() <= size) << size;
  }
}

TEST(Sweeps, EveryFlipIsRefusedOrHarmless) {
  const std::string whole = ToyNeff();
  for (size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    const auto header = ParseHeader(AsBytes(bytes), bytes.size());
    if (!header.ok()) {
      EXPECT_EQ(header.error().code(), Errc::kCorrupt);
      EXPECT_LT(bit / 8, 24u) << "only sizes and versions can be refused";
      continue;
    }
    EXPECT_LE(header->data_bytes, whole.size() - kHeaderBytes);
    EXPECT_GT(header->data_bytes, 0u);
    EXPECT_LE(header->build.size(), 128u);
    EXPECT_LE(header->name.size(), 256u);
  }
}

}  // namespace
}  // namespace nxdkit::neff
