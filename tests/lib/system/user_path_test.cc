#include "lib/system/user_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "lib/system/process.h"
#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

using testing_util::ExpectError;
using testing_util::TempFolder;

// HOME of the process for one test.
class UserPathTest : public ::testing::Test {
 protected:
  UserPathTest() : before_(EnvironmentValue("HOME")) { ::setenv("HOME", "/h/me", 1); }
  ~UserPathTest() override { ::setenv("HOME", before_.c_str(), 1); }

 private:
  std::string before_;
};

TEST_F(UserPathTest, TheHomeFolderIsWhereAShellHasIt) {
  const struct {
    const char* text;
    const char* path;
  } rows[] = {{"~", "/h/me"},
              {"~/a/b", "/h/me/a/b"},
              {"$HOME", "/h/me"},
              {"$HOME/a", "/h/me/a"},
              {"${HOME}/a", "/h/me/a"},
              {"~/", "/h/me/"},
              {"/a/~/b", "/a/~/b"},
              {"a", "a"},
              {"./~/b", "./~/b"},
              {"", ""},
              {"a$/b", "a$/b"},
              {"5$9", "5$9"},
              {"~/a@test", "/h/me/a@test"}};
  for (const auto& row : rows) {
    const Result<std::string> path = UserPath(row.text);
    ASSERT_TRUE(path.ok()) << row.text << ": " << path.error().ToString();
    EXPECT_EQ(*path, row.path) << row.text;
  }
}

TEST_F(UserPathTest, OtherVariablesAndUsersAreRefusedByName) {
  ExpectError(UserPath("~somebody/a"), Errc::kUsage, "~somebody in ~somebody/a is not replaced");
  ExpectError(UserPath("$SCRATCH/a"), Errc::kUsage, "$SCRATCH in $SCRATCH/a is not replaced");
  ExpectError(UserPath("/a/run-$USER_1.x/b"), Errc::kUsage, "$USER_1 in /a/run-$USER_1.x/b is not");
  ExpectError(UserPath("~/${RUN}b"), Errc::kUsage, "${RUN} in ~/${RUN}b is not replaced");
  ::unsetenv("HOME");
  ExpectError(UserPath("~/a"), Errc::kUsage, "~/a asks for the home folder, and HOME is not set");
}

TEST_F(UserPathTest, AFolderOfThatNameIsMeant) {
  const TempFolder folder;
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::filesystem::create_directory("$RUN");
  std::filesystem::create_directory("~");
  const Result<std::string> path = UserPath("$RUN/a");
  const Result<std::string> home = UserPath("~/a");
  std::filesystem::current_path(here);
  ASSERT_TRUE(home.ok()) << home.error().ToString();
  EXPECT_EQ(*home, "/h/me/a") << "whatever lies here";
  ASSERT_TRUE(path.ok()) << path.error().ToString();
  EXPECT_EQ(*path, "$RUN/a");
}

TEST_F(UserPathTest, UrlsAreNoPaths) {
  for (const char* url : {"s3://b/run", "gs://b/x", "az://c/x", "hdfs://n/x", "https://h/x.jsonl",
                          "hf://datasets/o/n", "abfss://c@a/x", "s3:/b/run", "https:/h/x"})
    ExpectError(UserPath(url), Errc::kUnsupported, std::string(url) + " is a URL");
  const auto file = ExpectError(UserPath("file:///data/x"), Errc::kUnsupported, "is a URL");
  EXPECT_EQ(file->hint(), "write /data/x");
  EXPECT_EQ(ExpectError(UserPath("file:/data/x"), Errc::kUnsupported, "is a URL")->hint(),
            "write /data/x");
  EXPECT_EQ(UrlScheme("s3://b"), "s3");
  for (const char* path : {"./s3://x", "a:/b", "://x", "a b://x", "./s3:/b", "s3:b"})
    EXPECT_EQ(UrlScheme(path), "") << path;
}

}  // namespace
}  // namespace nxdkit
