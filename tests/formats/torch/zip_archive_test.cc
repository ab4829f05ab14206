// The records that make a zip file a torch archive, and their consistency.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/formats/torch/builders.h"
#include "tests/formats/torch/expect_error.h"

namespace nxdkit::torch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kEmptyDict = Pickle("}");
const std::string kSixElevens(24, '\x11');  // six floats

TestZip Good() {
  TestZip zip;
  zip.records = RecordsOf(Pickle(TestTensor().Pickled()), {kSixElevens});
  return zip;
}

TEST(ZipArchive, ReadsAndBindsItsStorage) {
  const TempFolder folder;
  const Result<Archive> archive = ReadArchive(folder.File("t.pt", Good().Bytes()));
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  ASSERT_EQ(archive->tensors.size(), 1u);
  EXPECT_EQ(LogicalBytes(archive->tensors[0]).value(), kSixElevens);
  EXPECT_THAT(archive->warnings, ElementsAre());
  EXPECT_EQ(archive->tensors[0].storage->path(), archive->path);
}

TEST(ZipArchive, RefusesRecordsInNoFolder) {
  TestZip zip;
  zip.records.push_back({"data.pkl", kEmptyDict});
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kUnsupported, "data.pkl", 0, "in no folder"});
}

TEST(ZipArchive, RefusesAZipWithoutRecords) {
  TestZip zip;
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kCorrupt, "", 0, "without any record"});
  ExpectError(ReadBytes("PK\3\4" + zip.Bytes()), {Errc::kCorrupt, "", {}, "without any record"});
}

TEST(ZipArchive, RefusesAZipThatIsNoTorchArchive) {
  TestZip zip;
  zip.records = {{"x/word/document.xml", "<a/>"}, {"x/version", "3\n"}};
  ExpectError(ReadBytes(zip.Bytes()),
              {Errc::kUnsupported, "x/data.pkl", {}, "is not from torch.save"});
}

TEST(ZipArchive, RefusesTorchScript) {
  TestZip zip = Good();
  zip.records.push_back({"x/constants.pkl", kEmptyDict});
  const Result<Archive> archive = ReadBytes(zip.Bytes());
  ASSERT_FALSE(archive.ok());
  EXPECT_EQ(archive.error().code(), Errc::kUnsupported);
  EXPECT_EQ(archive.error().member(), "x/constants.pkl");
  EXPECT_EQ(archive.error().message(), "this is a TorchScript archive (a compiled model?)");
}

TEST(ZipArchive, RefusesAMissingVersion) {
  TestZip zip = Good();
  zip.records.pop_back();
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kCorrupt, "x/version", {}, "no version record"});
}

TEST(ZipArchive, VersionsThatTorchReads) {
  for (const char* version : {"1", "3\n", "3\r\n", "10"}) {
    TestZip zip;
    zip.records = {{"x/data.pkl", kEmptyDict}, {"x/version", version}};
    EXPECT_TRUE(ReadBytes(zip.Bytes()).ok()) << version;
    zip.records[1].name = "x/.data/version";
    EXPECT_TRUE(ReadBytes(zip.Bytes()).ok()) << version;
  }
  const struct {
    const char* version;
    Errc code;
    const char* says;
  } kBad[] = {{"0\n", Errc::kUnsupported, "version 0, supported are 1 to 10"},
              {"11\n", Errc::kUnsupported, "version 11"},
              {"-3", Errc::kUnsupported, "version -3"},
              {"", Errc::kCorrupt, "is not a number"},
              {"3 or so", Errc::kCorrupt, "\"3 or so\" is not a number"},
              {"99999999999", Errc::kCorrupt, "is not a number"}};
  for (const auto& bad : kBad) {
    TestZip zip;
    zip.records = {{"x/data.pkl", kEmptyDict}, {"x/version", bad.version}};
    ExpectError(ReadBytes(zip.Bytes()), {bad.code, "x/version", 83, bad.says});
  }
}

TEST(ZipArchive, RefusesAVersionRecordThatIsLong) {
  TestZip zip;
  zip.records = {{"x/data.pkl", kEmptyDict}, {"x/version", std::string(5000, '3')}};
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kUnsupported, "x/version", 83,
                                       "the record has 5000 bytes, the limit is 4096"});
}

TEST(ZipArchive, ByteOrder) {
  TestZip zip = Good();
  zip.records.push_back({"x/byteorder", "big"});
  const Result<Archive> big = ReadBytes(zip.Bytes());
  ASSERT_TRUE(big.ok());
  EXPECT_TRUE(big->tensors[0].big_endian);
  zip.records.back().data = "little";
  const Result<Archive> little = ReadBytes(zip.Bytes());
  ASSERT_TRUE(little.ok());
  EXPECT_FALSE(little->tensors[0].big_endian);
  zip.records.back().data = "middle";
  const Result<Archive> bad = ReadBytes(zip.Bytes());
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code(), Errc::kUnsupported);
  EXPECT_EQ(bad.error().member(), "x/byteorder");
  EXPECT_THAT(bad.error().message(), HasSubstr("byte order \"middle\""));
}

// torch reads this without an error, and then computes with the bytes after the storage.
TEST(ZipArchive, RefusesAStorageThatIsTooShort) {
  TestZip zip = Good();
  zip.records[1].data.resize(20);
  const Result<Archive> archive = ReadBytes(zip.Bytes());
  ASSERT_FALSE(archive.ok());
  EXPECT_EQ(archive.error().code(), Errc::kCorrupt);
  EXPECT_EQ(archive.error().member(), "x/data/0");
  EXPECT_THAT(archive.error().message(),
              HasSubstr("has 20 bytes, but data.pkl says 24 at its offset"));
}

TEST(ZipArchive, RefusesAStorageThatIsTooLong) {
  TestZip zip = Good();
  zip.records[1].data += "....";
  const Result<Archive> archive = ReadBytes(zip.Bytes());
  ASSERT_FALSE(archive.ok());
  EXPECT_EQ(archive.error().code(), Errc::kCorrupt);
  EXPECT_EQ(archive.error().member(), "x/data/0");
  EXPECT_THAT(archive.error().message(), HasSubstr("has 28 bytes, but data.pkl says 24"));
}

TEST(ZipArchive, RefusesAMissingStorage) {
  TestZip zip = Good();
  zip.records[1].name = "x/data/1";
  ExpectError(ReadBytes(zip.Bytes()), {Errc::kCorrupt, "x/data/0", {}, "the record is missing"});
}

TEST(ZipArchive, WarnsOfDataThatNoTensorUses) {
  TestZip zip = Good();
  zip.records.push_back({"x/data/1", "unused"});
  const Result<Archive> archive = ReadBytes(zip.Bytes());
  ASSERT_TRUE(archive.ok());
  EXPECT_THAT(archive->warnings, ElementsAre("1 of 2 data records belong to no tensor"));
}

TEST(ZipArchive, WarnsOfBytesAfterThePickle) {
  const Result<Archive> archive = ReadBytes(ArchiveOf(kEmptyDict + "junk"));
  ASSERT_TRUE(archive.ok());
  EXPECT_THAT(archive->warnings,
              ElementsAre("record data.pkl: 4 bytes after the end of the pickle"));
}

TEST(ZipArchive, RecordsWithoutChecksumAreCounted) {
  TestZip zip = Good();
  for (TestRecord& record : zip.records) record.crc = 0;
  for (int i = 0; i < 30; ++i) {
    zip.records.push_back({"x/more" + std::to_string(i), "m"});
    zip.records.back().crc = 0;
  }
  const Result<Archive> archive = ReadBytes(zip.Bytes());
  ASSERT_TRUE(archive.ok());
  EXPECT_THAT(archive->warnings, ElementsAre("33 of 33 records have no checksum (CRC 0), so damage "
                                             "to them cannot be detected; the first is data.pkl"));
}

TEST(ZipArchive, CrcOfStoragesOnRequest) {
  TestZip zip = Good();
  zip.records[1].crc = 0xdeadbeef;
  EXPECT_TRUE(ReadBytes(zip.Bytes()).ok());
  const Result<Archive> archive = ReadBytes(zip.Bytes(), {.check_crc = true});
  ASSERT_FALSE(archive.ok());
  EXPECT_EQ(archive.error().code(), Errc::kCorrupt);
  EXPECT_EQ(archive.error().member(), "x/data/0");
  EXPECT_THAT(archive.error().message(), HasSubstr("the directory says deadbeef"));
}

TEST(ZipArchive, TheLastByteOfAStorageShowsItsDamage) {
  TestZip zip = Good();
  zip.records[1].crc = 0xdeadbeef;
  const Result<Archive> archive = ReadBytes(zip.Bytes());
  ASSERT_TRUE(archive.ok());
  const Storage& storage = *archive->tensors[0].storage;
  std::vector<std::byte> bytes(storage.bytes());
  EXPECT_TRUE(storage.ReadAt(1, std::span(bytes).subspan(1)).ok());
  const Status last = storage.ReadAt(0, std::span(bytes).first(1));
  ASSERT_FALSE(last.ok());
  EXPECT_EQ(last.error().code(), Errc::kCorrupt);
  EXPECT_EQ(last.error().member(), "x/data/0");
  EXPECT_EQ(last.error().offset(), storage.file_offset());
  EXPECT_NE(last.error().message().find("the directory says deadbeef"), std::string::npos);
}

TEST(ZipArchive, ProvedRecordsAreNotReadAgain) {
  TestZip zip = Good();
  zip.records[1].crc = 0xdeadbeef;
  const Result<Archive> plain = ReadBytes(zip.Bytes());
  ASSERT_TRUE(plain.ok());
  const uint64_t place = plain->tensors[0].storage->file_offset();
  const std::set<uint64_t> proved = {place};
  EXPECT_TRUE(ReadBytes(zip.Bytes(), {.check_crc = true, .proved = &proved}).ok());
  const std::set<uint64_t> other = {place + 1};
  EXPECT_FALSE(ReadBytes(zip.Bytes(), {.check_crc = true, .proved = &other}).ok());
}

// ---- deflated storages ----

TestZip Deflated(std::string_view data) {
  TestZip zip = Good();
  zip.records[1].data = Deflate(data);
  zip.records[1].method = 8;
  zip.records[1].bytes = 24;
  zip.records[1].crc = 0;
  return zip;
}

TEST(ZipArchive, DeflatedStoragesAreInflatedOnce) {
  const TempFolder folder;
  const Result<Archive> archive = ReadArchive(folder.File("t.pt", Deflated(kSixElevens).Bytes()));
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  const Storage& storage = *archive->tensors[0].storage;
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (size_t i = 0; i < good.size(); ++i)
    threads.emplace_back([&, i] {
      std::string bytes(4, '\0');
      for (uint64_t at = 0; at <= 20; at += 4)
        if (storage.ReadAt(at, std::as_writable_bytes(std::span(bytes))).ok() &&
            bytes == "\x11\x11\x11\x11")
          ++good[i];
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(good, ElementsAre(6, 6, 6, 6));
}

TEST(ZipArchive, DeflatedStorageRefusesReadsBehindItsEnd) {
  const TempFolder folder;
  const Result<Archive> archive = ReadArchive(folder.File("t.pt", Deflated(kSixElevens).Bytes()));
  ASSERT_TRUE(archive.ok());
  std::string bytes(5, '\0');
  const Status status =
      archive->tensors[0].storage->ReadAt(20, std::as_writable_bytes(std::span(bytes)));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("5 bytes at offset 20 of a record of 24 bytes"));
}

TEST(ZipArchive, DeflatedStorageOfAnotherSizeFailsAtTheFirstRead) {
  for (const auto& [data, says] : std::vector<std::pair<std::string, std::string>>{
           {std::string(23, 'a'), "inflates to 23 bytes, expected 24"},
           {std::string(1 << 20, 'a'), "inflates to more than the 24 bytes"}}) {
    const TempFolder folder;
    const std::string path = folder.File("t.pt", Deflated(data).Bytes());
    const Result<Archive> archive = ReadArchive(path);
    ASSERT_TRUE(archive.ok());
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Result<std::string> bytes = LogicalBytes(archive->tensors[0]);
      ASSERT_FALSE(bytes.ok());
      EXPECT_EQ(bytes.error().code(), Errc::kCorrupt);
      EXPECT_EQ(bytes.error().member(), "x/data/0");
      EXPECT_EQ(bytes.error().file(), path);
      EXPECT_THAT(bytes.error().message(), HasSubstr(says));
    }
    EXPECT_FALSE(ReadArchive(path, {.check_crc = true}).ok());
  }
}

// ---- files that are not archives ----

TEST(NoArchive, IsRefusedByWhatItIs) {
  ExpectError(ReadBytes(""), {Errc::kCorrupt, "", 0, "the file is empty"});
  ExpectError(ReadBytes("{}"), {Errc::kUnsupported, "", 0, "starts with the bytes 7b 7d"});
  ExpectError(ReadBytes("\x80"), {Errc::kUnsupported, "", 0, "starts with the bytes 80"});
}

}  // namespace
}  // namespace nxdkit::torch
