// The proof that an archive's bytes are those that were packed, and the limit for one that would
// fill the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "formats/tar/pack.h"
#include "formats/tar/unpack.h"
#include "tests/formats/scratch.h"

namespace nxdkit::tar {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing_util::ReadBytes;
using testing_util::Scratch;

constexpr const char* kKinds[] = {"a.tar", "a.tar.zst", "a.tar.gz"};

class TarProof : public ::testing::Test {
 protected:
  std::string At(const std::string& name) const { return scratch_.folder() + "/" + name; }
  void Put(const std::string& name, const std::string& bytes) const {
    std::ofstream(At(name), std::ios::binary) << bytes;
  }
  std::string Packed(const std::string& name) const {
    PackRequest request{.input = At("in"), .output = At(name)};
    request.compression = *CompressionOf(name);
    request.force = true;
    request.sync = false;
    const auto report = Pack(request);
    EXPECT_TRUE(report.ok() && report->has_checksum);
    return ReadBytes(At(name));
  }
  Result<TransportReport> Unpacked(const std::string& bytes,
                                   std::optional<uint64_t> most = std::nullopt) const {
    Put("read", bytes);
    UnpackRequest request{.archive = At("read"), .output = At("out"), .max_bytes = most};
    request.force = true;
    request.sync = false;
    return Unpack(request);
  }
  void ExpectRefused(const std::string& bytes, const std::string& message) const {
    fs::remove_all(At("out"));
    const auto report = Unpacked(bytes);
    ASSERT_FALSE(report.ok()) << message;
    EXPECT_EQ(report.error().code(), Errc::kCorrupt);
    EXPECT_EQ(report.error().file(), At("read"));
    EXPECT_THAT(report.error().message(), HasSubstr(message));
    EXPECT_FALSE(fs::exists(At("out")) || fs::exists(At("out.partial")));
  }
  // Two files a little larger than a block.
  void PutSmall() const {
    fs::create_directories(At("in"));
    for (const char* name : {"in/a", "in/b"}) {
      std::string bytes;
      for (int i = 0; i < 150; ++i) bytes += std::to_string(i * i);
      Put(name, bytes + name);
    }
  }
  const Scratch scratch_;
};

TEST_F(TarProof, EveryFlippedBitIsFoundOrChangesNothing) {
  PutSmall();
  for (const std::string kind : kKinds) {
    const std::string whole = Packed(kind);
    // Streams are swept completely in tests/lib/compress.
    const size_t step = kind == "a.tar" ? 41 : 5;
    for (size_t bit = 0; bit < whole.size() * 8; bit += step) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      const auto report = Unpacked(damaged);
      if (!report.ok()) {
        EXPECT_EQ(report.error().code(), Errc::kCorrupt) << kind << " bit " << bit;
        continue;
      }
      for (const char* name : {"a", "b"})
        ASSERT_TRUE(ReadBytes(At(std::string("out/") + name)) ==
                    ReadBytes(At(std::string("in/") + name)))
            << kind << " bit " << bit;
      EXPECT_EQ(std::distance(fs::directory_iterator(At("out")), fs::directory_iterator()), 2);
    }
  }
}

TEST_F(TarProof, WhatIsFoundIsSaid) {
  PutSmall();
  std::string tar = Packed("a.tar");
  tar[600] ^= 1;
  ExpectRefused(tar, "the archive is damaged: its bytes have crc32 ");
  std::string gzip = Packed("a.tar.gz");
  gzip[gzip.size() - 6] ^= 1;  // in the CRC-32
  ExpectRefused(gzip, "the gzip stream does not decompress: incorrect data check");
  std::string zstd = Packed("a.tar.zst");
  zstd[zstd.size() - 2] ^= 1;
  ExpectRefused(zstd, "the zstd stream does not decompress: ");
}

TEST_F(TarProof, OtherBytesBehindTheEndAreRefused) {
  PutSmall();
  ExpectRefused(Packed("a.tar") + "x", "bytes after the end of the archive are not zeros");
  // Nothing would come out of the second archive.
  const std::string tar = Packed("a.tar");
  ExpectRefused(tar + tar, "bytes after the end of the archive are not zeros");
  ExpectRefused(Packed("a.tar.gz") + "x", "the gzip stream has other bytes after its end");
  ExpectRefused(Packed("a.tar.zst") + "x", "the zstd stream has other bytes after its end");
}

TEST_F(TarProof, AnArchiveWithoutAChecksumIsTold) {
  PutSmall();
  const std::string tar = Packed("a.tar");
  const auto report = Unpacked(tar.substr(0, tar.size() - 512));
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->has_checksum);
  ASSERT_EQ(std::system(("cd " + scratch_.folder() + " && tar -C in -cf b.tar .").c_str()), 0);
  const auto other = Unpacked(ReadBytes(At("b.tar")));  // padded with zeros to 10 KiB
  ASSERT_TRUE(other.ok()) << other.error().ToString();
  EXPECT_FALSE(other->has_checksum);
}

TEST_F(TarProof, TheProgramsOfTheFormatsFindTheSame) {
  PutSmall();
  for (const std::string kind : {"a.tar.gz", "a.tar.zst"}) {
    const std::string test = kind == "a.tar.gz" ? "gzip" : "zstd -q";
    if (std::system((test + " --version >/dev/null 2>&1").c_str()) != 0)
      GTEST_SKIP() << "no " << test << " here";
    std::string bytes = Packed(kind);
    EXPECT_EQ(std::system((test + " -t " + At(kind)).c_str()), 0);
    bytes[bytes.size() - 2] ^= 1;  // in a checksum
    Put(kind, bytes);
    EXPECT_NE(std::system((test + " -t " + At(kind) + " 2>/dev/null").c_str()), 0);
  }
}

// A file that compresses to nothing: the output exceeds the given limit, or a hundred times the
// input and a gigabyte. Sparse: it takes no space on this disk.
TEST_F(TarProof, ABombIsRefusedBeforeItIsWritten) {
  fs::create_directories(At("in"));
  Put("in/zeros", "");
  fs::resize_file(At("in/zeros"), 2 << 20);
  for (const std::string kind : kKinds) {
    const auto report = Unpacked(Packed(kind), 1 << 20);
    ASSERT_FALSE(report.ok()) << kind;
    EXPECT_EQ(report.error().code(), Errc::kLimit);
    EXPECT_EQ(report.error().member(), "zeros");
    EXPECT_EQ(report.error().message(),
              "the contents of the archive have at least 2097152 bytes, over the limit of 1048576");
    EXPECT_FALSE(fs::exists(At("out")) || fs::exists(At("out.partial")));
    EXPECT_TRUE(Unpacked(Packed(kind), 2 << 20).ok());
    fs::remove_all(At("out"));
  }
}

TEST_F(TarProof, WithoutALimitAHundredTimesTheArchiveIsOne) {
  fs::create_directories(At("in"));
  Put("in/zeros", "");
  fs::resize_file(At("in/zeros"), kAlwaysBytes + 1);
  const std::string whole = Packed("a.tar.zst");
  ASSERT_LT(whole.size(), 1u << 20);
  const auto report = Unpacked(whole);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::kLimit);
  EXPECT_THAT(report.error().message(),
              HasSubstr("at least 1073741825 bytes, over the limit of 1073741824"));
  EXPECT_THAT(report.error().hint(), HasSubstr("--max-unpacked"));
}

}  // namespace
}  // namespace nxdkit::tar
