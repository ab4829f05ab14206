#include "trainer/data/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;
using testing_util::ExpectError;
using testing_util::TempFolder;
using testing_util::WriteText;

TEST(DataSource, HasAPathAndASplit) {
  EXPECT_EQ(ParseDataSource("a/b.jsonl")->path, "a/b.jsonl");
  EXPECT_EQ(ParseDataSource("a/b.jsonl")->split, "train");
  EXPECT_EQ(ParseDataSource("a@test")->path, "a");
  EXPECT_EQ(ParseDataSource("a@test")->split, "test");
  for (const char* bad : {"", "@", "a@", "@test", "a@b@c"})
    ExpectError(ParseDataSource(bad), Errc::kUsage, "expected PATH or PATH@SPLIT");
}

TEST(ResolveFiles, AFileIsTheSplitTrain) {
  const TempFolder folder;
  WriteText(folder / "rows.jsonl", "");
  EXPECT_THAT(*ResolveFiles({folder / "rows.jsonl", "train"}), ElementsAre(folder / "rows.jsonl"));
  const auto error = ExpectError(ResolveFiles({folder / "rows.jsonl", "test"}), Errc::kNotFound,
                                 "a file has the split 'train' only, not 'test'");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), folder / "rows.jsonl");
}

TEST(ResolveFiles, AFolderIsAllItsFiles) {
  const TempFolder folder;
  for (const char* name : {"b.json", "a.jsonl", "README.md", ".hidden", "latest.jsonl"})
    WriteText(folder / name, "");
  EXPECT_THAT(*ResolveFiles({folder.path(), "train"}),
              ElementsAre(folder / "a.jsonl", folder / "b.json", folder / "latest.jsonl"));
  ExpectError(ResolveFiles({folder.path(), "test"}), Errc::kNotFound,
              "none of the 3 data files belongs to the split 'test'");
}

TEST(ResolveFiles, NamesTellSplits) {
  const TempFolder folder;
  for (const char* name :
       {"math-train-1.jsonl", "math-train-0.jsonl", "math-test.json", "dev.jsonl", "hard.jsonl"})
    WriteText(folder / name, "");
  EXPECT_THAT(*ResolveFiles({folder.path(), "train"}),
              ElementsAre(folder / "math-train-0.jsonl", folder / "math-train-1.jsonl"));
  EXPECT_THAT(*ResolveFiles({folder.path(), "test"}), ElementsAre(folder / "math-test.json"));
  EXPECT_THAT(*ResolveFiles({folder.path(), "validation"}), ElementsAre(folder / "dev.jsonl"));
  EXPECT_THAT(*ResolveFiles({folder.path(), "hard"}), ElementsAre(folder / "hard.jsonl"));
  ExpectError(ResolveFiles({folder.path(), "easy"}), Errc::kNotFound, "none of the 5 data files");
}

TEST(ResolveFiles, RefusesWhatItCannotRead) {
  const TempFolder folder;
  ExpectError(ResolveFiles({folder / "none", "train"}), Errc::kNotFound,
              "neither a file nor a folder");
  WriteText(folder / "train.parquet", "");
  const auto error =
      ExpectError(ResolveFiles({folder.path(), "train"}), Errc::kUnsupported, "'parquet'");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), folder / "train.parquet");
}

}  // namespace
}  // namespace nxdkit::trainer
