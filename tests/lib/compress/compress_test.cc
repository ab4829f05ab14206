// Streams of gzip and zstd: compressed and decompressed, and damaged in every way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/compress/compressor.h"
#include "lib/compress/decompressor.h"

namespace nxdkit {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string Packed(Compression compression, const std::string& text, size_t piece = 1 << 20) {
  std::string out;
  auto made = Compressor::Make(compression, std::nullopt, [&](std::span<const std::byte> bytes) {
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return OkStatus();
  });
  EXPECT_TRUE(made.ok());
  for (size_t at = 0; at < text.size(); at += piece)
    EXPECT_TRUE(made->Add(BytesOf(text.substr(at, piece))).ok());
  EXPECT_TRUE(made->Finish().ok());
  return out;
}

struct Read {
  Status status;
  std::string text;
  bool has_checksums = false;
  uint64_t taken = 0;
};

// Reads in pieces of `piece` bytes.
Read Unpacked(const std::string& stream, size_t piece = 1 << 20,
              std::optional<Compression> only = std::nullopt) {
  size_t at = 0;
  Decompressor decompressor(
      [&](std::span<std::byte> to) -> Result<size_t> {
        const size_t size = std::min({to.size(), piece, stream.size() - at});
        std::copy_n(BytesOf(stream).begin() + static_cast<std::ptrdiff_t>(at), size, to.begin());
        at += size;
        return size;
      },
      only);
  Read read;
  for (;;) {
    const auto bytes = decompressor.Next();
    if (!bytes.ok()) read.status = bytes.error();
    if (!bytes.ok() || bytes->empty()) break;
    read.text.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
  read.taken = decompressor.bytes_taken();
  read.has_checksums = decompressor.has_checksums();
  return read;
}

// Too much for one buffer of either side, and no two parts alike.
std::string Text() {
  std::string text;
  for (int i = 0; text.size() < 900'000; ++i) text += std::to_string(i * 7919) + ",";
  return text;
}

constexpr Compression kBoth[] = {Compression::kGzip, Compression::kZstd};

TEST(Compress, ComesBackInAnyPieces) {
  const std::string text = Text();
  for (const Compression compression : {Compression::kNone, kBoth[0], kBoth[1]}) {
    const std::string stream = Packed(compression, text);
    EXPECT_EQ(Packed(compression, text, 1000), stream);
    for (const size_t piece : {size_t{1}, size_t{4096}, size_t{1} << 20}) {
      const Read read = Unpacked(stream, piece);
      ASSERT_TRUE(read.status.ok()) << read.status.error().ToString();
      EXPECT_TRUE(read.text == text);
      EXPECT_EQ(read.has_checksums, compression != Compression::kNone);
      EXPECT_EQ(read.taken, stream.size());
    }
  }
}

TEST(Compress, NothingComesBackAsNothing) {
  for (const Compression compression : kBoth) {
    const Read read = Unpacked(Packed(compression, ""));
    EXPECT_TRUE(read.status.ok());
    EXPECT_EQ(read.text, "");
  }
}

TEST(Compress, EveryFlippedBitIsFoundOrChangesNothing) {
  const std::string text = Text().substr(0, 3000);
  for (const Compression compression : kBoth) {
    const std::string stream = Packed(compression, text);
    for (size_t bit = 0; bit < stream.size() * 8; ++bit) {
      std::string damaged = stream;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      const Read read = Unpacked(damaged, 1 << 20, compression);
      if (read.status.ok()) {
        EXPECT_TRUE(read.text == text) << "bit " << bit;
        continue;
      }
      EXPECT_EQ(read.status.error().code(), Errc::kCorrupt) << "bit " << bit;
      EXPECT_THAT(read.status.error().message(), HasSubstr(" stream ")) << "bit " << bit;
      EXPECT_LE(read.status.error().offset().value_or(stream.size() + 1), stream.size());
    }
  }
}

TEST(Compress, EveryCutIsFound) {
  const std::string text = Text().substr(0, 3000);
  for (const Compression compression : kBoth) {
    const std::string stream = Packed(compression, text);
    for (size_t size = 0; size < stream.size(); ++size) {
      const Read read = Unpacked(stream.substr(0, size), 1 << 20, compression);
      ASSERT_FALSE(read.status.ok()) << size;
      EXPECT_EQ(read.status.error().code(), Errc::kCorrupt) << size;
    }
    const Read last = Unpacked(stream.substr(0, stream.size() - 1));
    EXPECT_THAT(last.status.error().message(), HasSubstr("is cut off"));
    EXPECT_EQ(last.status.error().offset(), stream.size() - 1);
  }
}

TEST(Compress, StreamsFollowEachOther) {
  for (const Compression compression : kBoth) {
    const Read read = Unpacked(Packed(compression, "one,") + Packed(compression, "two"), 3);
    ASSERT_TRUE(read.status.ok()) << read.status.error().ToString();
    EXPECT_EQ(read.text, "one,two");
  }
}

TEST(Compress, OtherBytesBehindTheEndAreFound) {
  for (const Compression compression : kBoth) {
    const std::string stream = Packed(compression, "one");
    for (const std::string more : {"x", "more bytes"}) {
      const Read read = Unpacked(stream + more);
      ASSERT_FALSE(read.status.ok());
      EXPECT_THAT(read.status.error().message(), HasSubstr("has other bytes after its end"));
      EXPECT_EQ(read.status.error().offset(), stream.size());
    }
  }
  // As gzip itself accepts: archives from old devices end with zeros.
  const std::string gzip = Packed(Compression::kGzip, "one");
  EXPECT_TRUE(Unpacked(gzip + std::string(300'000, '\0')).status.ok());
  EXPECT_FALSE(Unpacked(gzip + std::string(300'000, '\0') + "x").status.ok());
}

// As python's zstandard and libarchive write them: the frame's flag shows it.
TEST(Compress, AFrameWithoutAChecksumIsTold) {
  std::string frame(
      "\x28\xb5\x2f\xfd\x00\x58\x19\x00\x00"
      "abc",
      12);
  Read read = Unpacked(frame);
  ASSERT_TRUE(read.status.ok()) << read.status.error().ToString();
  EXPECT_EQ(read.text, "abc");
  EXPECT_FALSE(read.has_checksums);
  read = Unpacked(Packed(Compression::kZstd, "x") + frame);
  EXPECT_EQ(read.text, "xabc");
  EXPECT_FALSE(read.has_checksums);
}

TEST(Compress, OnlyLevelsThatAreThere) {
  const auto make = [](Compression compression, int level) {
    return Compressor::Make(compression, level, [](auto) { return OkStatus(); });
  };
  EXPECT_TRUE(make(Compression::kGzip, 9).ok());
  EXPECT_TRUE(make(Compression::kZstd, 22).ok());
  EXPECT_EQ(make(Compression::kGzip, 10).error().code(), Errc::kUsage);
  EXPECT_EQ(make(Compression::kZstd, 23).error().code(), Errc::kUsage);
}

}  // namespace
}  // namespace nxdkit
