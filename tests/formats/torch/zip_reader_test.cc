// The zip reader's refusals. Local headers here are 30 bytes and the name, so that "x/data.pkl"
// (42 bytes of pickle or less) begins at 0 and its data at 40.
#include <gtest/gtest.h>

#include "tests/formats/torch/builders.h"
#include "tests/formats/torch/expect_error.h"

namespace nxdkit::torch {
namespace {

const std::string kFourBytes = Pickle("}");  // 4 bytes

TestZip GoodZip() {
  TestZip zip;
  zip.records = RecordsOf(kFourBytes);  // data.pkl at 0, version at 44, directory at 85
  return zip;
}
constexpr uint64_t kVersionOffset = 44;
constexpr uint64_t kDirectoryOffset = 85;
constexpr uint64_t kEndOffset = kDirectoryOffset + 46 + 10 + 46 + 9;

TEST(ZipReader, ReadsTheGoodOnes) {
  TestZip zip = GoodZip();
  EXPECT_TRUE(ReadBytes(zip.Bytes()).ok());
  zip.comment = "a comment of PK\5\6 the archive";
  EXPECT_TRUE(ReadBytes(zip.Bytes()).ok());
  zip.zip64_end = true;
  EXPECT_TRUE(ReadBytes(zip.Bytes()).ok());
  EXPECT_TRUE(ReadBytes(GoodZip().Bytes() + std::string(100, '\xaa')).ok());
}

TEST(ZipReader, Zip64SizesAndOffsets) {
  TestZip zip = GoodZip();
  zip.records[1].bytes = zip.records[1].stored_bytes = 0xffffffff;
  zip.records[1].header_offset = 0xffffffff;
  zip.records[1].directory_extra =
      "FB" + U16(3) + "ZZZ" + U16(1) + U16(24) + U64(2) + U64(2) + U64(kVersionOffset);
  const Result<Archive> archive = ReadBytes(zip.Bytes());
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  zip.records[1].directory_extra = U16(1) + U16(16) + U64(2) + U64(2);
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/version", 0xffffffff, "zip64 extra field has only 16 bytes"});
  zip.records[1].directory_extra = U16(1) + U16(16) + U64(2);
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kCorrupt, "x/version", 0xffffffff, "cut off"});
}

TEST(ZipReader, RefusesAFileWithoutEnd) {
  const std::string file = GoodZip().Bytes();
  ExpectError(
      ReadBytes(file.substr(0, kEndOffset)),
      {Errc::kCorrupt, "", kEndOffset, "no end of a zip archive in the last 196 bytes of 196"});
  EXPECT_EQ(ReadBytes(file.substr(0, kEndOffset)).error().hint(),
            "the file is cut off, or is still being written");
}

TEST(ZipReader, RefusesJunkOver64KiB) {
  const std::string file = GoodZip().Bytes() + std::string(65536, 'j');
  ExpectError(ReadBytes(file), {Errc::kCorrupt, "", file.size(), "no end of a zip archive"});
}

TEST(ZipReader, RefusesSeveralDisks) {
  TestZip zip = GoodZip();
  zip.disk = 2;
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kUnsupported, "", kEndOffset, "disk number 2"});
  zip.zip64_end = true;
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kUnsupported, "", kEndOffset, "disk number 2"});
}

TEST(ZipReader, RefusesMoreEntriesThanTheDirectoryHolds) {
  TestZip zip = GoodZip();
  zip.entries = 3;
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kCorrupt, "", kEndOffset,
                                       "3 entries do not fit into a central directory of 111"});
  zip.zip64_end = true;
  zip.entries = UINT64_MAX;
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "", kEndOffset, "18446744073709551615 entries do not fit"});
}

TEST(ZipReader, RefusesFewerEntriesThanTheDirectoryHolds) {
  TestZip zip = GoodZip();
  zip.entries = 1;
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kCorrupt, "", kDirectoryOffset + 56,
                                       "55 bytes are left over after the 1 entries"});
}

TEST(ZipReader, RefusesADirectoryBehindItsEnd) {
  TestZip zip = GoodZip();
  zip.directory_offset = kDirectoryOffset + 1;
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "", kEndOffset,
               "(111 bytes at offset 86) is not before its end record at 196"});
  zip.zip64_end = true;
  zip.directory_offset = UINT64_MAX;
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "", kEndOffset, "is not before its end record"});
}

TEST(ZipReader, RefusesADirectoryThatIsNone) {
  TestZip zip = GoodZip();
  zip.directory_offset = kDirectoryOffset - 1;
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kCorrupt, "", kDirectoryOffset - 1,
                                       "no central directory entry here (entry 1 of 2)"});
}

TEST(ZipReader, RefusesALocatorToNowhere) {
  TestZip zip = GoodZip();
  zip.zip64_end = true;
  std::string file = zip.Bytes();
  const size_t locator = kEndOffset + 56;
  file.replace(locator + 8, 8, U64(kEndOffset + 1));
  ExpectError(ReadBytes(file),
              {Errc::kCorrupt, "", locator, "zip64 locator says the end record is at 197"});
  file.replace(locator + 8, 8, U64(kEndOffset - 1));
  ExpectError(ReadBytes(file),
              {Errc::kCorrupt, "", kEndOffset - 1, "zip64 end record has signature"});
}

TEST(ZipReader, RefusesTwoRecordsOfOneName) {
  TestZip zip = GoodZip();
  zip.records.push_back({"x/version", "3\n"});
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/version", 126 + 111, "two records have this name"});
}

TEST(ZipReader, RefusesEncryptedRecords) {
  TestZip zip = GoodZip();
  zip.records[1].flags = 1;
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kUnsupported, "x/version", kVersionOffset, "encrypted"});
  zip.records[1].flags = 0x20;
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kUnsupported, "x/version", kVersionOffset, "patch"});
}

TEST(ZipReader, RefusesOtherMethods) {
  TestZip zip = GoodZip();
  zip.records[1].method = 12;
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kUnsupported, "x/version", kVersionOffset, "compressed by method 12"});
}

TEST(ZipReader, RefusesAStoredRecordOfTwoSizes) {
  TestZip zip = GoodZip();
  zip.records[1].bytes = 3;
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kCorrupt, "x/version", kVersionOffset,
                                       "has 2 bytes in the file but claims 3"});
}

TEST(ZipReader, RefusesRecordsThatOverlap) {
  TestZip zip = GoodZip();
  zip.records[0].bytes = zip.records[0].stored_bytes = 5;
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kCorrupt, "x/data.pkl", 0,
                                       "5 bytes at offset 40 run into the next record at 44"});
}

TEST(ZipReader, RefusesTwoEntriesOfOneLocalHeader) {
  TestZip zip = GoodZip();
  zip.records.push_back({"x/extra", ""});
  zip.records[2].header_offset = kVersionOffset;
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/version", kVersionOffset, "run into the next record at 44"});
}

TEST(ZipReader, RefusesRecordsThatRunIntoTheDirectory) {
  TestZip zip = GoodZip();
  zip.records[1].bytes = zip.records[1].stored_bytes = 3;
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kCorrupt, "x/version", kVersionOffset,
                                       "3 bytes at offset 83 run into the directory at 85"});
}

TEST(ZipReader, RefusesRecordsOutsideOfTheFile) {
  TestZip zip = GoodZip();
  zip.records[1].header_offset = 100000;
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/version", 100000, "they end at most at 85"});
}

TEST(ZipReader, RefusesALocalHeaderThatIsNone) {
  TestZip zip = GoodZip();
  zip.records[1].header_offset = kVersionOffset + 1;
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/version", kVersionOffset + 1, "the local header has signature"});
}

TEST(ZipReader, RefusesALocalHeaderOfAnotherName) {
  TestZip zip = GoodZip();
  zip.records[1].local_name = "x/versiom";
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/version", kVersionOffset, "another name"});
  zip.records[1].local_name = "x/version2";
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/version", kVersionOffset, "another name"});
}

TEST(ZipReader, RefusesALocalHeaderOfAnotherMethod) {
  TestZip zip = GoodZip();
  zip.records[1].local_method = 8;
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kCorrupt, "x/version", kVersionOffset,
                                       "local header says method 8, the central directory 0"});
}

TEST(ZipReader, RefusesAnEntryThatIsCutOff) {
  TestZip zip = GoodZip();
  std::string file = zip.Bytes();
  file.replace(kDirectoryOffset + 56 + 30, 2, U16(9));  // length of the extra field
  ExpectError(ReadBytes(file),
              {Errc::kCorrupt, "", kDirectoryOffset + 56, "entry 2 of 2 is cut off"});
}

// ---- deflated records ----

TestZip Deflated() {
  TestZip zip = GoodZip();
  zip.records[0].data = Deflate(kFourBytes);
  zip.records[0].method = 8;
  zip.records[0].bytes = kFourBytes.size();
  zip.records[0].crc = 0;
  return zip;
}

TEST(ZipReader, ReadsADeflatedPickle) {
  const Result<Archive> archive = ReadBytes(Deflated().Bytes());
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  ASSERT_NE(archive->root.dict(), nullptr);
}

TEST(ZipReader, RefusesADeflatedRecordOfAnotherSize) {
  TestZip zip = Deflated();
  zip.records[0].bytes = 3;
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/data.pkl", 40, "inflates to more than the 3 bytes"});
  zip.records[0].bytes = 5;
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/data.pkl", 40, "inflates to 4 bytes, expected 5"});
}

TEST(ZipReader, RefusesAClaimThatDeflateCannotMake) {
  TestZip zip = Deflated();
  zip.records[0].bytes = 1 << 30;
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/data.pkl", 0, "cannot hold 1073741824 bytes"});
}

TEST(ZipReader, RefusesDamagedDeflatedData) {
  TestZip zip = Deflated();
  zip.records[0].data[0] = '\x07';  // a block of the reserved type 3
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/data.pkl", 40, "inflating stops after 0 of 4"});
  zip = Deflated();
  zip.records[0].data.pop_back();
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/data.pkl", 40, "the data ends too early"});
  zip = Deflated();
  zip.records[0].data += "!";
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/data.pkl", 40, "1 bytes are left over after the deflated data"});
}

TEST(ZipReader, RefusesAWrongCrcOfWhatItReads) {
  TestZip zip = GoodZip();
  zip.records[0].crc = 0x12345678;
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kCorrupt, "x/data.pkl", 40, "the directory says 12345678"});
}

}  // namespace
}  // namespace nxdkit::torch
