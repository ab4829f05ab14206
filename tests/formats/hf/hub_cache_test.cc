// The layout is huggingface_hub's; tests/interop/hf_interop.py asks the library itself.
#include "formats/hf/hub_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit::hf {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing_util::ExpectError;
using testing_util::TempFolder;
using testing_util::WriteText;

class HubCache : public ::testing::Test {
 protected:
  HubCache() { ::setenv("HF_HUB_CACHE", folder_.path().c_str(), 1); }
  ~HubCache() override { ::unsetenv("HF_HUB_CACHE"); }

  std::string Repo(const std::string& name = "models--Qwen--Tiny") const { return folder_ / name; }
  // A file as `hf download` leaves it.
  void Add(const std::string& file, const std::string& text, const std::string& commit = "c0ffee",
           const std::string& repo = "models--Qwen--Tiny") const {
    const fs::path snapshot = Repo(repo) + "/snapshots/" + commit;
    fs::create_directories((snapshot / file).parent_path());
    fs::create_directories(Repo(repo) + "/blobs");
    const std::string blob = "blob-" + fs::path(file).filename().string();
    WriteText(Repo(repo) + "/blobs/" + blob, text);
    fs::create_symlink(fs::path(Repo(repo)) / "blobs" / blob, snapshot / file);
  }
  void Ref(const std::string& commit) const {
    fs::create_directories(Repo() + "/refs");
    WriteText(Repo() + "/refs/main", commit);
  }
  const TempFolder folder_;
};

TEST_F(HubCache, FindsTheSnapshotOfMain) {
  Add("config.json", "{}");
  Add("config.json", "{}", "older");
  Ref("c0ffee\n");
  const auto found = FindInHubCache(HubKind::kModel, "Qwen/Tiny");
  ASSERT_TRUE(found.ok()) << found.error().ToString();
  EXPECT_EQ(*found, Repo() + "/snapshots/c0ffee");
  fs::remove(Repo() + "/refs/main");
  ExpectError(FindInHubCache(HubKind::kModel, "Qwen/Tiny"), Errc::kNotFound,
              "2 snapshots in the hub's cache, and no refs/main that names one");
  fs::remove_all(Repo() + "/snapshots/older");
  EXPECT_TRUE(FindInHubCache(HubKind::kModel, "Qwen/Tiny").ok()) << "the only one";
  Ref("../../../etc");
  EXPECT_EQ(*FindInHubCache(HubKind::kModel, "Qwen/Tiny"), Repo() + "/snapshots/c0ffee")
      << "no path outside is followed";
}

TEST_F(HubCache, ARevisionIsABranchOrTheStartOfACommit) {
  Add("config.json", "{}");
  Add("config.json", "{}", "older");
  fs::create_directories(Repo() + "/refs/refs/pr");
  WriteText(Repo() + "/refs/v1.0", "older");
  WriteText(Repo() + "/refs/refs/pr/3", "c0ffee");
  for (const auto& [revision, commit] : std::map<std::string, std::string>{
           {"v1.0", "older"}, {"c0f", "c0ffee"}, {"older", "older"}, {"refs/pr/3", "c0ffee"}}) {
    const std::string name = "Qwen/Tiny@" + revision;
    EXPECT_TRUE(IsHubName(name)) << name;
    const auto found = FindInHubCache(HubKind::kModel, name);
    ASSERT_TRUE(found.ok()) << found.error().ToString();
    EXPECT_EQ(*found, Repo() + "/snapshots/" + commit);
  }
  const auto none = ExpectError(FindInHubCache(HubKind::kModel, "Qwen/Tiny@v2"), Errc::kNotFound,
                                "0 snapshots in the hub's cache are of revision v2");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->hint(), "hf download Qwen/Tiny --revision v2");
  for (const char* bad : {"a/b@", "a/b@../x", "a/b@x y", "a/b@/x"})
    EXPECT_FALSE(IsHubName(bad)) << bad;
}

TEST_F(HubCache, TheFolderOfARepositoryIsItsSnapshot) {
  Add("config.json", "{}");
  EXPECT_EQ(*SnapshotInside(Repo()), Repo() + "/snapshots/c0ffee");
  EXPECT_EQ(*SnapshotInside(folder_.path()), folder_.path());
  fs::create_directories(folder_ / "models--a--b");
  EXPECT_EQ(*SnapshotInside(folder_ / "models--a--b"), folder_ / "models--a--b");
}

TEST_F(HubCache, SaysHowToGetWhatIsNotThere) {
  const auto model =
      ExpectError(FindInHubCache(HubKind::kModel, "Qwen/Tiny"), Errc::kNotFound,
                  "no such file or folder, and it is not in the hub's cache " + folder_.path());
  ASSERT_TRUE(model);
  EXPECT_EQ(model->hint(), "hf download Qwen/Tiny");
  const auto rows = ExpectError(FindInHubCache(HubKind::kDataset, "org/rows"), Errc::kNotFound, "");
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->hint(), "hf download --repo-type dataset org/rows");
}

TEST_F(HubCache, AnUnfinishedDownloadIsNamed) {
  Add("model.safetensors.index.json", R"({"weight_map": {"a": "model-00001-of-00002.safetensors", )"
                                      R"("b": "model-00002-of-00002.safetensors"}})");
  Ref("c0ffee");
  const auto lacks = [&](const char* file) {
    const auto error = ExpectError(FindInHubCache(HubKind::kModel, "Qwen/Tiny"), Errc::kNotFound,
                                   "is not finished: there is no ");
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message(), HasSubstr(file));
  };
  lacks("config.json");
  Add("config.json", "{}");
  Add("model-00001-of-00002.safetensors", "x");
  lacks("model-00002-of-00002.safetensors");
  Add("model-00002-of-00002.safetensors", "x");
  EXPECT_TRUE(FindInHubCache(HubKind::kModel, "Qwen/Tiny").ok());
  fs::remove(Repo() + "/blobs/blob-model-00001-of-00002.safetensors");
  lacks("model-00001-of-00002.safetensors");
}

TEST_F(HubCache, DatasetsHaveFoldersInThem) {
  Add("data/train-00000-of-00001.parquet", "PAR1", "c0ffee", "datasets--org--rows");
  EXPECT_EQ(*FindInHubCache(HubKind::kDataset, "org/rows"),
            Repo("datasets--org--rows") + "/snapshots/c0ffee");
  fs::remove(Repo("datasets--org--rows") + "/blobs/blob-train-00000-of-00001.parquet");
  ExpectError(FindInHubCache(HubKind::kDataset, "org/rows"), Errc::kNotFound,
              "there is no data/train-00000-of-00001.parquet");
}

TEST_F(HubCache, NamesAreThoseOfTheHub) {
  for (const char* good : {"Qwen/Qwen3-4B", "a/b", "org/with_under.dots-1"})
    EXPECT_TRUE(IsHubName(good)) << good;
  for (const char* bad : {"", "a", "a/", "/a", "a/b/c", "../a", "a/..", "-a/b", ".a/b", "a b/c"})
    EXPECT_FALSE(IsHubName(bad)) << bad;
  EXPECT_FALSE(IsHubName(folder_.path())) << "what is here is what is meant";
}

TEST(HubCacheFolder, IsWhereTheHubsOwnLibraryLooks) {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"})
    ::unsetenv(name);
  ::setenv("HOME", "/me", 1);
  EXPECT_EQ(HubCacheFolder(), "/me/.cache/huggingface/hub");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(HubCacheFolder(), "/x/huggingface/hub");
  ::setenv("HF_HOME", "/h", 1);
  EXPECT_EQ(HubCacheFolder(), "/h/hub");
  ::setenv("HF_HUB_CACHE", "/c", 1);
  EXPECT_EQ(HubCacheFolder(), "/c");
  for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) ::unsetenv(name);
}

}  // namespace
}  // namespace nxdkit::hf
