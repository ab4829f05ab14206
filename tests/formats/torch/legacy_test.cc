// The legacy form, by hand: five pickles and the storages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/torch/builders.h"
#include "tests/formats/torch/expect_error.h"

namespace nxdkit::torch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string LegacyStorage(std::string_view storage_class, std::string_view key, int64_t elements,
                          std::string_view view = "N") {
  return Tuple(Str("storage") + Global("torch", storage_class) + Str(key) + Str("cpu") +
               Long(elements) + std::string(view)) +
         "Q";
}

std::string LegacyTensor(std::string_view storage, const std::vector<int64_t>& shape) {
  return Global("torch._utils", "_rebuild_tensor") +
         Tuple(std::string(storage) + Int(0) + IntTuple(shape) + IntTuple({1})) + "R";
}

struct Legacy {
  std::string magic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  std::string protocol = Int(1001);
  std::string system = "}" + Str("little_endian") + "\x88s";
  std::string object = LegacyTensor(LegacyStorage("ShortStorage", "77", 3), {3});
  std::string keys = "]" + Str("77") + "a";
  std::string storages = U64(3) + "aabbcc";

  std::string Head() const { return Pickle(magic) + Pickle(protocol) + Pickle(system); }
  std::string Bytes() const { return Head() + Pickle(object) + Pickle(keys) + storages; }
  uint64_t object_offset() const { return Head().size(); }
  uint64_t keys_offset() const { return object_offset() + Pickle(object).size(); }
  uint64_t storages_offset() const { return keys_offset() + Pickle(keys).size(); }
};

TEST(Legacy, ReadsAStorage) {
  const TempFolder folder;
  const Legacy file;
  const Result<Archive> archive = ReadArchive(folder.File("t.pt", file.Bytes()));
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  EXPECT_EQ(archive->format, "torch legacy");
  ASSERT_EQ(archive->tensors.size(), 1u);
  EXPECT_EQ(LogicalBytes(archive->tensors[0]).value(), "aabbcc");
  EXPECT_EQ(archive->tensors[0].storage->file_offset(), file.storages_offset() + 8);
}

// torch converts storages to little-endian when it writes this form, so the flag means nothing.
TEST(Legacy, ByteOrderIsAlwaysLittle) {
  Legacy file;
  file.system = "}" + Str("little_endian") + "\x89s";
  const Result<Archive> archive = ReadBytes(file.Bytes());
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  EXPECT_FALSE(archive->tensors[0].big_endian);
}

TEST(Legacy, ViewsOfStorages) {
  Legacy file;
  file.object = LegacyTensor(
      LegacyStorage("ShortStorage", "77", 3, Str("78") + Int(1) + Int(2) + "\x87"), {2});
  const TempFolder folder;
  const Result<Archive> archive = ReadArchive(folder.File("t.pt", file.Bytes()));
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  EXPECT_EQ(archive->tensors[0].offset, 2u);
  EXPECT_EQ(LogicalBytes(archive->tensors[0]).value(), "bbcc");
}

TEST(Legacy, RefusesViewsThatDoNotFit) {
  Legacy file;
  const auto refused = [&](std::string_view view, const std::string& says) {
    const std::string storage = LegacyStorage("ShortStorage", "77", 3, view);
    file.object = LegacyTensor(storage, {1});
    const uint64_t at = file.object_offset() + 2 +
                        Global("torch._utils", "_rebuild_tensor").size() + 1 + storage.size() - 1;
    ExpectError(ReadBytes(file.Bytes()), {Errc::kCorrupt, "object", at, says});
  };
  refused(Str("78") + Int(1) + Int(3) + "\x87", "a view of 3 elements at 1 of a storage of 3");
  refused(Str("78") + Int(-1) + Int(1) + "\x87", "a view of 1 elements at -1 of a storage of 3");
  refused(Str("78") + Int(4) + Int(0) + "\x87", "a view of 0 elements at 4 of a storage of 3");
  refused("K\1", "is neither None nor (key, offset, size)");
  refused("N\x85", "is neither None nor (key, offset, size)");
}

// The tensor must be inside its view, not only inside the storage behind it.
TEST(Legacy, RefusesTensorsOutsideOfTheirView) {
  Legacy file;
  file.object = LegacyTensor(
      LegacyStorage("ShortStorage", "77", 3, Str("78") + Int(0) + Int(2) + "\x87"), {3});
  ExpectError(ReadBytes(file.Bytes()), {Errc::kCorrupt, "object", file.keys_offset() - 2,
                                        "is not within its storage of 4 bytes"});
}

TEST(Legacy, RefusesAnotherMagicNumber) {
  Legacy file;
  file.magic[2] = '\x6d';
  ExpectError(ReadBytes(file.Bytes()),
              {Errc::kUnsupported, "magic number", 0, "is this a plain pickle"});
  // A plain pickle of a dict: it is refused at its end, where a second pickle should begin.
  ExpectError(ReadBytes(Pickle("}")),
              {Errc::kCorrupt, "protocol version", 4, "the file ends after 4 bytes"});
}

TEST(Legacy, RefusesOtherProtocols) {
  Legacy file;
  file.protocol = Int(1002);
  ExpectError(ReadBytes(file.Bytes()),
              {Errc::kUnsupported, "protocol version", 15, "version 1002, expected 1001"});
  file.protocol = "N";
  ExpectError(ReadBytes(file.Bytes()), {Errc::kCorrupt, "protocol version", 15, "is a None"});
}

TEST(Legacy, RefusesSystemInformationThatIsNoDict) {
  Legacy file;
  file.system = "]";
  ExpectError(ReadBytes(file.Bytes()),
              {Errc::kCorrupt, "system information", 23, "is a list, expected a dict"});
}

TEST(Legacy, RefusesWholeModules) {
  Legacy file;
  file.object = Tuple(Str("module") + "NNN") + "Q";
  ExpectError(ReadBytes(file.Bytes()),
              {Errc::kUnsupported, "object", file.keys_offset() - 2, "whole module"});
}

TEST(Legacy, RefusesIdsOfFiveFields) {
  Legacy file;
  file.object = StorageId("ShortStorage", "77", 3);
  ExpectError(ReadBytes(file.Bytes()),
              {Errc::kCorrupt, "object", file.keys_offset() - 2, "5 fields, expected 6"});
}

TEST(Legacy, RefusesKeysThatDoNotFit) {
  Legacy file;
  const auto refused = [&](const std::string& keys, const std::string& says) {
    file.keys = keys;
    ExpectError(ReadBytes(file.Bytes()),
                {Errc::kCorrupt, "storage keys", file.keys_offset(), says});
  };
  refused("]", "1 of the 1 storages of the tensors are not among the keys");
  refused("](" + Str("77") + Str("77") + "e", "\"77\", or the key is there twice");
  refused("]" + Str("78") + "a", "no tensor uses the storage \"78\"");
  refused("]K\1a", "a key is a int");
  refused(")", "the keys are a tuple");
}

TEST(Legacy, RefusesStoragesOfAnotherSize) {
  Legacy file;
  file.storages = U64(4) + "aabbccdd";
  ExpectError(ReadBytes(file.Bytes()), {Errc::kCorrupt, "storage 77", file.storages_offset(),
                                        "says it has 4 elements, the object 3"});
  file.storages = U64(UINT64_MAX) + "aabbccdd";
  ExpectError(ReadBytes(file.Bytes()), {Errc::kCorrupt, "storage 77", file.storages_offset(),
                                        "says it has 18446744073709551615 elements"});
}

TEST(Legacy, RefusesAFileThatEndsTooEarly) {
  Legacy file;
  file.storages = U64(3) + "aabbc";
  ExpectError(ReadBytes(file.Bytes()), {Errc::kCorrupt, "storage 77", file.storages_offset() + 8,
                                        "has 6 bytes, but the file ends 5 bytes after this"});
  file.storages = "\3";
  ExpectError(ReadBytes(file.Bytes()),
              {Errc::kCorrupt, "storage 77", file.storages_offset(), "8 bytes at offset"});
  const std::string bytes = Legacy().Bytes();
  ExpectError(ReadBytes(bytes.substr(0, Legacy().keys_offset() - 1)),
              {Errc::kCorrupt, "object", Legacy().keys_offset() - 1, "inside the pickle"});
}

TEST(Legacy, RefusesBytesAfterTheLastStorage) {
  const Legacy file;
  ExpectError(ReadBytes(file.Bytes() + "x"),
              {Errc::kCorrupt, "", file.Bytes().size(), "1 bytes are left over"});
}

// Pickles are read in portions of 64 KiB, 128 KiB, ...: one that is larger must come out whole.
TEST(Legacy, ReadsPicklesLargerThanOnePortion) {
  Legacy file;
  const std::string name(300000, 'n');
  file.object = "}" + Str(name) + file.object + "s";
  const Result<Archive> archive = ReadBytes(file.Bytes());
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  EXPECT_NE(archive->root.Find(name), nullptr);
}

}  // namespace
}  // namespace nxdkit::torch
