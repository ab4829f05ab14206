// The file: written in any order, read at random, and every damaged bit found.
#include "formats/delta/delta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "formats/delta/file_format.h"
#include "tests/formats/delta/delta_workshop.h"
#include "tests/formats/memory_file.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::delta {
namespace {

using testing::ApplyAll;
using testing::BlocksInOrder;
using testing::Bytes;
using ::testing::HasSubstr;
using testing::Models;
using testing::Order;
using testing::SmallModels;
using testing_util::ExpectError;
using testing_util::MemoryFile;
using testing_util::ReadBytes;
using testing_util::Scratch;

class DeltaFile : public ::testing::TestWithParam<Coding> {
 protected:
  const Scratch scratch_;
  const std::string path_ = scratch_.Path("x.delta");
};

TEST_P(DeltaFile, ComesBack) {
  const Models models = SmallModels(GetParam());
  testing::Write(path_, models, BlocksInOrder(models));
  EXPECT_TRUE(*LooksLikeDelta(path_));
  const auto delta = Delta::Open(path_);
  ASSERT_TRUE(delta.ok()) << delta.error().ToString();
  const Head& head = (*delta)->head();
  EXPECT_EQ(head.coding, GetParam());
  EXPECT_EQ(head.base, models.head.base);
  EXPECT_EQ(head.result, models.head.result);
  ASSERT_EQ(head.params.size(), models.head.params.size());
  const uint64_t changed[] = {86, 0, 0, 1, 5};
  for (size_t i = 0; i < head.params.size(); ++i) {
    EXPECT_EQ(head.params[i].name, models.head.params[i].name);
    EXPECT_EQ(head.params[i].dtype, models.head.params[i].dtype);
    EXPECT_EQ(head.params[i].shape, models.head.params[i].shape);
    EXPECT_EQ(head.params[i].base, models.head.params[i].base);
    EXPECT_EQ(head.params[i].result, models.head.params[i].result);
    EXPECT_EQ(head.params[i].changed, changed[i]) << i;
  }
  const auto result = ApplyAll(**delta, models.base);
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_TRUE(*result == models.result);
}

// Out of order, and larger than the memory that is kept.
TEST_P(DeltaFile, TheOrderOfTheBlocksLeavesNoTrace) {
  Models models;
  models.head.coding = GetParam();
  models.Add("big", Dtype::kBF16, {18, 1 << 19}, 1, 1);  // 18 blocks of some 1 MiB
  std::mt19937 random(2);
  for (std::byte& byte : models.result[0]) byte = static_cast<std::byte>(random());
  models.Add("tail", Dtype::kBF16, {1000}, 2, 3);
  const Order order = BlocksInOrder(models);
  testing::Write(path_, models, order);
  Order backwards = order;
  std::reverse(backwards.begin(), backwards.end());
  const std::string other = scratch_.Path("backwards.delta");
  testing::Write(other, models, backwards);
  EXPECT_TRUE(ReadBytes(path_) == ReadBytes(other));
  EXPECT_GT(ReadBytes(other).size(), uint64_t{17} << 19);
}

// A longer file of the same name leaves nothing behind.
TEST_P(DeltaFile, ReplacesWhatWasThere) {
  scratch_.Write("x.delta", std::string(100000, 'x'));
  const Models models = SmallModels(GetParam());
  testing::Write(path_, models, BlocksInOrder(models));
  EXPECT_TRUE(Delta::Open(path_).ok());
}

TEST_P(DeltaFile, EveryPrefixIsRefused) {
  const Models models = SmallModels(GetParam());
  testing::Write(path_, models, BlocksInOrder(models));
  const std::string bytes = ReadBytes(path_);
  MemoryFile memory;
  for (size_t size = 0; size < bytes.size(); ++size) {
    memory.Set(bytes.substr(0, size));
    const auto delta = Delta::Open(memory.path());
    ASSERT_FALSE(delta.ok()) << size;
    EXPECT_EQ(delta.error().code(), Errc::kCorrupt) << size;
    EXPECT_TRUE(delta.error().offset().has_value()) << size;
  }
  memory.Set(bytes + "x");
  ExpectError(Delta::Open(memory.path()), Errc::kCorrupt, "bytes follow");
}

TEST_P(DeltaFile, EveryFlippedBitIsFound) {
  const Models models = SmallModels(GetParam());
  testing::Write(path_, models, BlocksInOrder(models));
  const std::string bytes = ReadBytes(path_);
  MemoryFile memory;
  memory.Set(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const char damaged = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    memory.Write(bit / 8, {&damaged, 1});
    const auto delta = Delta::Open(memory.path());
    const Status read = delta.ok() ? [&]() -> Status {
      NXDKIT_TRY(ApplyAll(**delta, models.base));
      return OkStatus();
    }()
        : Status(delta.error());
    ASSERT_FALSE(read.ok()) << bit;
    const Errc code = read.error().code();
    EXPECT_TRUE(code == Errc::kCorrupt || code == Errc::kUnsupported) << bit;
    EXPECT_EQ(read.error().file(), memory.path()) << bit;
    EXPECT_TRUE(read.error().offset().has_value()) << bit << read.error().ToString();
    memory.Write(bit / 8, {&bytes[bit / 8], 1});
  }
}

TEST_P(DeltaFile, ADamagedBlockIsNamed) {
  const Models models = SmallModels(GetParam());
  testing::Write(path_, models, BlocksInOrder(models));
  std::string bytes = ReadBytes(path_);
  bytes[kHeaderBytes] ^= 1;
  scratch_.Write("x.delta", bytes);
  const auto delta = Delta::Open(path_);
  ASSERT_TRUE(delta.ok()) << delta.error().ToString();
  BlockDecoder decoder;
  Changes changes;
  const auto error = ExpectError((*delta)->Read(0, 0, decoder, changes), Errc::kCorrupt,
                                 "block 0 is damaged: its CRC-32 is");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "a.weight");
  EXPECT_EQ(error->offset(), kHeaderBytes);
}

INSTANTIATE_TEST_SUITE_P(All, DeltaFile, ::testing::Values(Coding::kRaw, Coding::kUlp),
                         [](const auto& row) { return row.param == Coding::kRaw ? "Raw" : "Ulp"; });

// --- wrong files with a right checksum

struct Lie {
  const char* name;
  std::string meta;
  uint64_t payload_bytes;
  uint64_t blocks;  // rows of the table, with `block_bytes` in each
  uint32_t block_bytes;
  Errc code;
  const char* part;
};
class Lies : public ::testing::TestWithParam<Lie> {};

std::string Meta(const std::string& param) {
  return R"({"block_bytes": 1048576, "params": [)" + param + "]}";
}
std::string ParamText(const std::string& shape, const std::string& changed = "0",
                      const std::string& dtype = "BF16") {
  return R"({"name": "w", "dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "changed": )" +
         changed + "}";
}

TEST_P(Lies, AreFound) {
  const Lie& lie = GetParam();
  const std::span<const std::byte> meta =
      std::as_bytes(std::span(lie.meta.data(), lie.meta.size()));
  Bytes table(DigestsBytes(1) + lie.blocks * kTableRow);
  for (uint64_t i = 0; i < lie.blocks; ++i)
    std::memcpy(table.data() + DigestsBytes(1) + i * kTableRow, &lie.block_bytes, 4);
  const auto header = MakeHeader(Coding::kRaw, lie.payload_bytes, table, meta);
  std::string bytes(reinterpret_cast<const char*>(header.data()), header.size());
  bytes.append(lie.payload_bytes, 'p');
  bytes.append(reinterpret_cast<const char*>(table.data()), table.size());
  bytes += lie.meta;
  const Scratch scratch;
  const auto error = ExpectError(Delta::Open(scratch.Write("x", bytes)), lie.code, lie.part);
  ASSERT_TRUE(error);
  EXPECT_TRUE(error->offset().has_value());
}

const Lie kLies[] = {
    {"NoJson", "{", 0, 0, 0, Errc::kCorrupt, "line 1"},
    {"OtherBlocks", R"({"block_bytes": 4, "params": []})", 0, 0, 0, Errc::kUnsupported,
     "blocks of 4 bytes"},
    {"NoParams", R"({"block_bytes": 1048576})", 0, 0, 0, Errc::kCorrupt, "expected an array"},
    {"Twice", Meta(ParamText("[0]") + ", " + ParamText("[0]")), 0, 8, 0, Errc::kCorrupt,
     "there twice"},
    {"UnknownDtype", Meta(ParamText("[0]", "0", "F4")), 0, 0, 0, Errc::kUnsupported,
     "elements of dtype \"F4\""},
    {"NegativeShape", Meta(ParamText("[-1]")), 0, 0, 0, Errc::kCorrupt, "-1"},
    {"ShapeOfText", Meta(ParamText("[\"2\"]")), 0, 1, 0, Errc::kCorrupt, "expected a size"},
    {"HugeShape", Meta(ParamText("[4611686018427387904]")), 0, 1, 0, Errc::kCorrupt, ""},
    {"WideShape", Meta(ParamText("[18446744073709551615]")), 0, 1, 0, Errc::kCorrupt,
     "expected a size"},
    {"BigShape", Meta(ParamText("[1099511627776]")), 0, 1, 0, Errc::kCorrupt,
     "are too few for the blocks of w"},
    {"FewBlocks", Meta(ParamText("[524289]")), 0, 1, 0, Errc::kCorrupt,
     "136 bytes of table, expected 144 for 1 parameters and 2 blocks"},
    {"ManyChanges", Meta(ParamText("[4]", "5")), 0, 1, 0, Errc::kCorrupt,
     "5 of 4 elements changed"},
    {"BlocksPastThePayload", Meta(ParamText("[4]")), 3, 1, 4, Errc::kCorrupt,
     "a block of 4 bytes, but 3 of 3 are left"},
    {"PayloadLeftOver", Meta(ParamText("[4]")), 3, 1, 2, Errc::kCorrupt,
     "the blocks take 2 of 3 bytes"},
};
INSTANTIATE_TEST_SUITE_P(All, Lies, ::testing::ValuesIn(kLies),
                         [](const auto& row) { return row.param.name; });

TEST(DeltaWriter, RefusesElementsItCannotTellApart) {
  const Scratch scratch;
  Head head;
  Param param;
  param.name = "w";
  param.dtype = Dtype::kC128;
  param.shape = {2};
  head.params = {param};
  const auto error = ExpectError(Writer::Create(scratch.Path("x"), head), Errc::kUnsupported,
                                 "elements of dtype C128 have no delta");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "w");
}

TEST(DeltaRecognition, IsByContent) {
  const Scratch scratch;
  EXPECT_FALSE(*LooksLikeDelta(scratch.Write("x.delta", "something else")));
  EXPECT_FALSE(*LooksLikeDelta(scratch.Write("y.delta", "")));
  EXPECT_FALSE(*LooksLikeDelta(scratch.Path("none.delta")));
}

}  // namespace
}  // namespace nxdkit::delta
