#include "formats/neff/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "tests/formats/neff/neff_bytes.h"

namespace nxdkit::neff {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::PlainNeff;
using testing_util::Put;
using testing_util::Scratch;
using testing_util::ToyNeff;

Listing List(const std::string& bytes, const ListLimits& limits = {}) {
  const Scratch scratch;
  const Result<File> file = File::OpenRead(scratch.Write("x.neff", bytes));
  const auto neff = ReadAt(*file, 0, file->bytes());
  EXPECT_TRUE(neff.ok()) << neff.error().ToString();
  auto listing = ListPayload(*file, *neff, limits);
  EXPECT_TRUE(listing.ok()) << listing.error().ToString();
  return listing.ok() ? *std::move(listing) : Listing();
}

std::vector<std::string> NamesOf(const Listing& listing) {
  std::vector<std::string> names;
  for (const Member& member : listing.members)
    names.push_back(member.name + " " + std::to_string(member.bytes));
  return names;
}

// A header before any payload.
std::string NeffOf(const std::string& payload) {
  std::string bytes = ToyNeff().substr(0, kHeaderBytes) + payload;
  Put(bytes, 16, static_cast<uint64_t>(payload.size()));
  return bytes;
}

std::string Gzip(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A member of a ustar archive: the header, and its contents padded.
std::string TarMember(const std::string& name, const std::string& contents) {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  block.replace(100, 8, std::string("0000644\0", 8));
  char size[12];
  snprintf(size, sizeof size, "%011zo", contents.size());
  block.replace(124, 12, std::string(size, 12));
  block.replace(136, 12, std::string("00000000000\0", 12));
  block.replace(148, 8, "        ");
  block[156] = '0';
  block.replace(257, 8, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  char text[8];
  snprintf(text, sizeof text, "%06o", sum);
  block.replace(148, 7, std::string(text, 7));
  return block + contents + std::string((512 - contents.size() % 512) % 512, '\0');
}

TEST(Payloads, AreListedInBothForms) {
  for (const std::string& bytes : {ToyNeff(), PlainNeff()}) {
    const Listing listing = List(bytes);
    EXPECT_THAT(NamesOf(listing), ElementsAre("kelf-a.json 19", "neff.json 30", "sg00/def.json 64",
                                              "sg00/pe.bin 64", "sg00/act.bin 0"));
    EXPECT_EQ(listing.cut_short, "");
    EXPECT_EQ(CountGraphs(listing), 1u);
  }
}

TEST(Payloads, NamesAreBytes) {
  const std::string name = "sg00/\x1b[31m\xff\xfe/../../etc";
  const Listing listing = List(NeffOf(TarMember(name, "") + std::string(1024, '\0')));
  ASSERT_EQ(listing.members.size(), 1u);
  EXPECT_EQ(listing.members[0].name, name);
}

TEST(Payloads, DamageEndsTheListing) {
  std::string bytes = PlainNeff();
  bytes[kHeaderBytes + 1024 + 10] = 'X';  // the second member's name: its sum is wrong
  const Listing listing = List(bytes);
  EXPECT_EQ(listing.members.size(), 1u);
  EXPECT_THAT(listing.cut_short, HasSubstr("the archive is damaged: "));
  EXPECT_THAT(List(NeffOf("\x1f\x8b\x08 no gzip at all")).cut_short, HasSubstr("damaged"));
}

TEST(Payloads, EachLimitEndsTheListing) {
  EXPECT_EQ(List(ToyNeff(), {.members = 2, .poll = {}}).cut_short, "more than 2 members");
  EXPECT_EQ(List(ToyNeff(), {.members = 2, .poll = {}}).members.size(), 2u);
  EXPECT_EQ(List(ToyNeff(), {.name_bytes = 10, .poll = {}}).cut_short,
            "a name of 11 bytes is over the limit of 10");
}

// 64 MB of zeros in 64 kB: reading stops at the limit, not at the end.
TEST(Payloads, ABombEndsAtTheLimit) {
  const std::string bomb = NeffOf(Gzip(TarMember("a", std::string(64 << 20, '\0')) +
                                       TarMember("b", "") + std::string(1024, '\0')));
  ASSERT_LT(bomb.size(), 100'000u);
  const Listing listing = List(bomb, {.bytes = 1 << 20, .poll = {}});
  EXPECT_THAT(NamesOf(listing), ElementsAre("a 67108864"));
  EXPECT_EQ(listing.cut_short, "more than 1048576 bytes after decompression");
}

// A member that claims more than the archive holds allocates no memory for it.
TEST(Payloads, ASizeThatIsNotThereIsDamage) {
  std::string member = TarMember("a", "");
  member.replace(124, 12, "77777777777 ");
  member.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : member) sum += static_cast<unsigned char>(c);
  char text[8];
  snprintf(text, sizeof text, "%06o", sum);
  member.replace(148, 7, std::string(text, 7));
  const Listing listing = List(NeffOf(member));
  EXPECT_THAT(NamesOf(listing), ElementsAre("a 8589934591"));
  EXPECT_THAT(listing.cut_short, HasSubstr("damaged"));
}

TEST(Payloads, EveryCutAndFlipIsListedOrTold) {
  const std::string toy = ToyNeff();
  for (size_t size = kHeaderBytes + 1; size < toy.size(); ++size) {
    std::string bytes = toy.substr(0, size);
    Put(bytes, 16, static_cast<uint64_t>(size - kHeaderBytes));
    const Listing listing = List(bytes);
    EXPECT_LE(listing.members.size(), 5u) << size;
    EXPECT_NE(listing.cut_short, "") << size;
  }
  const std::vector<std::string> names = NamesOf(List(toy));
  for (size_t bit = 8 * kHeaderBytes; bit < 8 * toy.size(); ++bit) {
    std::string bytes = toy;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    const Listing listing = List(bytes, {.members = 100, .bytes = 1 << 20, .poll = {}});
    EXPECT_LE(listing.members.size(), 100u) << bit;
    if (listing.cut_short.empty()) {
      EXPECT_EQ(NamesOf(listing), names) << bit;
    }
  }
}

TEST(Payloads, AreStopped) {
  const Scratch scratch;
  const Result<File> file = File::OpenRead(scratch.Write("x.neff", ToyNeff()));
  ListLimits limits;
  limits.poll = [] { return Status(Error(Errc::kInterrupted, "stop")); };
  const auto listing = ListPayload(*file, *ReadAt(*file, 0, file->bytes()), limits);
  ASSERT_FALSE(listing.ok());
  EXPECT_EQ(listing.error().code(), Errc::kInterrupted);
}

}  // namespace
}  // namespace nxdkit::neff
