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

TEST(DataSource, APathWithAnAtIsWhatIsThere) {
  const TempFolder folder;
  WriteText(folder / "rows@v1.jsonl", "");
  EXPECT_EQ(ParseDataSource(folder / "rows@v1.jsonl")->path, folder / "rows@v1.jsonl");
  EXPECT_EQ(ParseDataSource(folder / "rows@v1.jsonl")->split, "train");
  const auto split = ParseDataSource((folder / "rows@v1.jsonl") + "@test");
  ASSERT_TRUE(split.ok()) << split.error().ToString();
  EXPECT_EQ(split->path, folder / "rows@v1.jsonl");
  EXPECT_EQ(split->split, "test");
  const auto of_hub = ParseDataSource("org/name@v1.0@test");
  ASSERT_TRUE(of_hub.ok()) << of_hub.error().ToString();
  EXPECT_EQ(of_hub->path, "org/name@v1.0");
}

// A data set of the hub's cache, by its folder there.
TEST(ResolveFiles, ARepositoryOfTheCacheIsItsSnapshot) {
  const TempFolder folder;
  const std::string repo = folder / "datasets--org--name";
  std::filesystem::create_directories(repo + "/snapshots/abc");
  WriteText(repo + "/snapshots/abc/train.jsonl", "");
  const auto files = ResolveFiles({repo, "train"});
  ASSERT_TRUE(files.ok()) << files.error().ToString();
  EXPECT_THAT(*files, ElementsAre(repo + "/snapshots/abc/train.jsonl"));
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
              "there is no split 'test'; there are train: 3 files");
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
  ExpectError(ResolveFiles({folder.path(), "easy"}), Errc::kNotFound,
              "there is no split 'easy'; there are no split: 1 file, test: 1 file, train: 2 "
              "files, validation: 1 file");
}

TEST(ResolveFiles, RefusesWhatItCannotRead) {
  const TempFolder folder;
  ExpectError(ResolveFiles({folder / "none", "train"}), Errc::kNotFound,
              "neither a file nor a folder");
  ExpectError(ResolveFiles({folder.path(), "train"}), Errc::kNotFound,
              "found no data files: .jsonl, .json, .parquet, .arrow");
  WriteText(folder / "train.csv", "");
  const auto error =
      ExpectError(ResolveFiles({folder.path(), "train"}), Errc::kUnsupported, "'csv'");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), folder / "train.csv");
}

// As the hub ships them, and as `datasets` saves them to disk.
TEST(ResolveFiles, LooksIntoFoldersWhereTheFolderHasNoFiles) {
  const TempFolder folder;
  const auto add = [&](const char* name) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    WriteText(folder / name, "");
  };
  for (const char* name : {"README.md", "data/train-00000-of-00002.parquet",
                           "data/train-00001-of-00002.parquet", "data/test-00000-of-00001.parquet"})
    add(name);
  EXPECT_THAT(*ResolveFiles({folder.path(), "train"}),
              ElementsAre(folder / "data/train-00000-of-00002.parquet",
                          folder / "data/train-00001-of-00002.parquet"));
  EXPECT_THAT(*ResolveFiles({folder.path(), "test"}),
              ElementsAre(folder / "data/test-00000-of-00001.parquet"));
  std::filesystem::remove_all(folder / "data");
  for (const char* name : {"dataset_dict.json", "train/state.json", "train/dataset_info.json",
                           "train/data-00000-of-00001.arrow", "test/data-00000-of-00001.arrow"})
    add(name);
  std::filesystem::remove(folder / "dataset_dict.json");
  EXPECT_THAT(*ResolveFiles({folder.path(), "test"}),
              ElementsAre(folder / "test/data-00000-of-00001.arrow"));
  EXPECT_THAT(*ResolveFiles({folder / "train", "train"}),
              ElementsAre(folder / "train/data-00000-of-00001.arrow"));
}

TEST(ResolveFiles, TheCardOfADataSetTellsItsSplits) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "main");
  for (const char* name : {"main/a-1.parquet", "main/a-2.parquet", "main/b.parquet", "main/c.csv"})
    WriteText(folder / name, "");
  WriteText(folder / "README.md",
            "---\nlicense: mit\nconfigs:\n- config_name: default\n  data_files:\n"
            "  - split: train\n    path: main/a-*\n  - split: test\n    path:\n"
            "    - main/b.parquet\n---\n# Rows\n");
  EXPECT_THAT(*ResolveFiles({folder.path(), "train"}),
              ElementsAre(folder / "main/a-1.parquet", folder / "main/a-2.parquet"));
  EXPECT_THAT(*ResolveFiles({folder.path(), "test"}), ElementsAre(folder / "main/b.parquet"));
  WriteText(folder / "README.md",
            "---\nconfigs:\n- config_name: easy\n  data_files: []\n- config_name: hard\n---\n");
  ExpectError(ResolveFiles({folder.path(), "train"}), Errc::kUnsupported,
              "several configurations and no default: easy, hard");
}

TEST(ResolveFiles, ANameOfTheHubIsInItsCache) {
  const TempFolder folder;
  ::setenv("HF_HUB_CACHE", folder.path().c_str(), 1);
  const auto error = ExpectError(ResolveFiles({"org/rows", "train"}), Errc::kNotFound,
                                 "it is not in the hub's cache");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->hint(), "hf download --repo-type dataset org/rows");
  const std::string snapshot = folder / "datasets--org--rows/snapshots/abc/";
  std::filesystem::create_directories(snapshot + "data");
  WriteText(snapshot + "data/train-00000-of-00001.parquet", "");
  EXPECT_THAT(*ResolveFiles({"org/rows", "train"}),
              ElementsAre(snapshot + "data/train-00000-of-00001.parquet"));
  ::unsetenv("HF_HUB_CACHE");
}

}  // namespace
}  // namespace nxdkit::trainer
