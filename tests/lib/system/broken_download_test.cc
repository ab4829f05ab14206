#include "lib/system/broken_download.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/errors.h"
#include "tests/formats/scratch.h"

namespace nxdkit {
namespace {

using ::testing::HasSubstr;
using testing_util::Scratch;

struct Row {
  const char* name;
  std::string bytes;
  const char* message;
  const char* hint;
};

const std::string kPointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 4976698672\n";

TEST(BrokenDownload, SaysWhatLiesThere) {
  const Scratch scratch;
  const Row rows[] = {
      {"pointer", kPointer,
       "a git-lfs pointer of 79 bytes lies in the place of the file, which has", "git lfs pull"},
      {"pointer without a size", kPointer.substr(0, 60), "a git-lfs pointer of 60 bytes",
       "git lfs pull"},
      {"page", " \n<!DOCTYPE HTML><html>", "a web page", "get the file again"},
      {"page with a mark", "\xef\xbb\xbf<html>", "a web page", "get the file again"},
      {"answer", "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>",
       "an object store's answer lies in the place of the file: NoSuchKey", "get the file again"},
      {"nothing", "", "the file is empty", "get the file again"},
      {"zeros", std::string(5000, '\0'), "begins with 4096 zero bytes", "get the file again"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const std::string path = scratch.Write("file", row.bytes);
    const std::optional<Error> error = BrokenDownload(path);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Errc::kCorrupt);
    EXPECT_EQ(error->file(), path);
    EXPECT_THAT(error->message(), HasSubstr(row.message));
    EXPECT_THAT(error->hint(), HasSubstr(row.hint));
  }
}

TEST(BrokenDownload, HasNoWordForOtherFiles) {
  const Scratch scratch;
  for (const std::string& bytes :
       {std::string("{\"a\": 1}"), std::string("PK\3\4"), std::string(7, '\0'),
        std::string("<?xml version=\"1.0\"?><svg>"), std::string(4000, '\0') + "x"})
    EXPECT_FALSE(BrokenDownload(scratch.Write("file", bytes))) << bytes.substr(0, 20);
  EXPECT_FALSE(BrokenDownload(scratch.Path("missing")));
  EXPECT_FALSE(BrokenDownload(scratch.folder()));
}

TEST(BrokenDownload, LeavesTheSystemsRefusalsAlone) {
  const Scratch scratch;
  const std::string path = scratch.Write("file", kPointer);
  EXPECT_EQ(OrBrokenDownload(Error(Errc::kIo, "read error"), path).message(), "read error");
  EXPECT_THAT(OrBrokenDownload(Corrupt("no header"), path).message(), HasSubstr("git-lfs"));
  EXPECT_EQ(OrBrokenDownload(Corrupt("no header"), scratch.Write("x", "{}")).message(),
            "no header");
}

}  // namespace
}  // namespace nxdkit
