#include "trainer/data/row_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing_util::ExpectError;
using testing_util::TempFolder;
using testing_util::WriteText;

class RowReader : public ::testing::Test {
 protected:
  // (line, value of "a") of each row.
  Status Read(std::string_view text) {
    WriteText(path_, text);
    rows_.clear();
    return ReadRows(path_, [&](const Json& row, uint64_t line) -> Status {
      NXDKIT_ASSIGN(const int64_t a, JsonInt(row, "a"));
      rows_.emplace_back(line, a);
      return OkStatus();
    });
  }

  TempFolder folder_;
  std::string path_ = folder_ / "rows";
  std::vector<std::pair<uint64_t, int64_t>> rows_;
};

TEST_F(RowReader, ReadsLines) {
  ASSERT_TRUE(Read("{\"a\": 1}\n\n  \r\n{\"a\": 2, \"b\": NaN}\r\n{\"a\": 3}").ok());
  EXPECT_THAT(rows_, ElementsAre(Pair(1, 1), Pair(4, 2), Pair(5, 3)));
  ASSERT_TRUE(Read("").ok());
  EXPECT_THAT(rows_, IsEmpty());
}

TEST_F(RowReader, SaysWhatCameInThePlaceOfTheRows) {
  ExpectError(Read("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4000\n"),
              Errc::kCorrupt, "a git-lfs pointer of 66 bytes lies in the place of the file");
  ExpectError(Read("<!DOCTYPE html>\n<html></html>\n"), Errc::kCorrupt, "a web page lies");
  ExpectError(Read("{\"a\": \"<html>\"}\n"), Errc::kCorrupt, "line 1");
}

TEST_F(RowReader, ReadsArrays) {
  ASSERT_TRUE(Read(" \n[{\"a\": 1, \"s\": \"],{\\\"\"},\n {\"a\":\n2},{\"a\": 3}\n]\n").ok());
  EXPECT_THAT(rows_, ElementsAre(Pair(2, 1), Pair(3, 2), Pair(4, 3)));
  ASSERT_TRUE(Read("[ ]").ok());
  EXPECT_THAT(rows_, IsEmpty());
}

TEST_F(RowReader, ReadsLinesAcrossBlocks) {
  std::string text;
  for (int i = 0; i < 9; ++i)
    text += "{\"s\": \"" + std::string(300'000, 'x') + "\", \"a\": " + std::to_string(i) + "}\n";
  ASSERT_TRUE(Read(text).ok());
  ASSERT_EQ(rows_.size(), 9u);
  EXPECT_EQ(rows_[8], (std::pair<uint64_t, int64_t>(9, 8)));
}

// As some Windows editors write it.
TEST_F(RowReader, PassesAByteOrderMarkOver) {
  ASSERT_TRUE(Read("\xEF\xBB\xBF{\"a\": 1}\r\n{\"a\": 2}\r\n").ok());
  EXPECT_THAT(rows_, ElementsAre(Pair(1, 1), Pair(2, 2)));
  ASSERT_TRUE(Read("\xEF\xBB\xBF\r\n[{\"a\": 1}]").ok());
  EXPECT_THAT(rows_, ElementsAre(Pair(2, 1)));
}

struct RowFault {
  const char* text;
  const char* message;
};

TEST_F(RowReader, NamesFileAndLine) {
  const RowFault faults[] = {
      {"{\"a\": 1}\n{\"a\": }\n", "line 2: JSON line 1 column 7"},
      {"{\"a\": 1}\n\n3\n", "line 3: found an integer, expected an object"},
      {"{\"a\": 1} {\"a\": 2}\n", "line 1: JSON"},
      {"{\n  \"a\": 1\n}\n", "line 1: an object over several lines"},
      {"{\"a\": 1}\n{\"b\": 2}\n", "line 2: the key is missing"},
      {"{\"a\": 1, \"a\": 2}\n", "line 1: JSON line 1 column 12: key 'a' is there twice"},
      {"{\"a\": \"\xff\"}\n", "line 1: JSON line 1 column 8: bytes are not UTF-8"},
      {"[{\"a\": 1},\n{\"a\": 2},]", "line 2: JSON"},
      {"[{\"a\": 1}\n{\"a\": 2}]", "line 1: JSON line 2"},
      {"[{\"a\": 1},\n[2]]", "line 2: found an array, expected an object"},
      {"[{\"a\": 1}\n", "line 2: the array does not end"},
      {"[{\"a\": \"x\n", "line 1: JSON"},
      {"[{\"a\": 1}]\n\n,", "line 3: there is text after the array"},
  };
  for (const RowFault& fault : faults) {
    SCOPED_TRACE(fault.text);
    const auto error = ExpectError(Read(fault.text), Errc::kCorrupt, fault.message);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->file(), path_);
  }
}

TEST_F(RowReader, SurvivesDamage) {
  const std::string whole = "[{\"a\": 1, \"s\": \"\\\"]\"},\n {\"a\": 2, \"n\": [1, {}]}]\n";
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(Read(whole.substr(0, i)).ok(), i == 0 || i >= whole.size() - 1) << i;
    for (const char c : {'[', ']', '{', '}', '"', '\\', ',', '\0', '\n'}) {
      std::string broken = whole;
      broken[i] = c;
      const Status status = Read(broken);
      EXPECT_TRUE(status.ok() || status.error().file() == path_);
    }
  }
}

}  // namespace
}  // namespace nxdkit::trainer
