#include "lib/system/folders.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

using testing_util::Exists;
using testing_util::ExpectErrorAt;
using testing_util::TempFolder;
using testing_util::WriteText;

TEST(SyncFolder, NamesTheFolder) {
  const TempFolder folder;
  EXPECT_TRUE(SyncFolder(folder.path()).ok());
  ExpectErrorAt(SyncFolder(folder / "no"), Errc::kIo, "open the folder", folder / "no",
                std::nullopt);
}

TEST(RealPath, AsFarAsItExists) {
  const TempFolder folder;
  const std::string real = std::filesystem::canonical(folder.path()).string();
  std::filesystem::create_directory(folder / "a");
  std::filesystem::create_symlink("a", folder / "link");
  EXPECT_EQ(*RealPath(folder / "link/"), real + "/a");
  EXPECT_EQ(*RealPath(folder / "link/../link/no/./more"), real + "/a/no/more");
  EXPECT_EQ(*RealPath("/"), "/");
  std::filesystem::create_symlink("loop", folder / "loop");
  ExpectErrorAt(RealPath(folder / "loop"), Errc::kCorrupt, "Too many levels", folder / "loop",
                std::nullopt);
}

TEST(NearestExisting, ClimbsToWhatIsThere) {
  const TempFolder folder;
  WriteText(folder / "file", "");
  EXPECT_EQ(NearestExisting(folder / "a/b/c"), folder.path());
  EXPECT_EQ(NearestExisting(folder / "file/b"), folder / "file");
  EXPECT_EQ(NearestExisting("no/such"), ".");
}

TEST(MakeFolders, AllThatAreMissing) {
  const TempFolder folder;
  for (const bool sync : {false, true}) {
    EXPECT_TRUE(MakeFolders(folder / "a/b/c", sync).ok());
    EXPECT_EQ(*KindOf(folder / "a/b/c"), PathKind::kFolder);
    EXPECT_TRUE(MakeFolders(folder / "a/b/c/", sync).ok());
  }
}

// A cache that is pruned while entries are added.
TEST(MakeFolders, WhileOthersTakeEmptyOnesAway) {
  const TempFolder folder;
  const std::string path = folder / "a/b/c";
  std::atomic<bool> done = false;
  std::thread pruner([&] {
    while (!done) {
      for (const char* empty : {"a/b/c", "a/b", "a"}) ::rmdir((folder / empty).c_str());
      ::usleep(20);  // without a pause there may never be time to make three
    }
  });
  for (int i = 0; i < 3000; ++i) {
    const Status made = MakeFolders(path);
    EXPECT_TRUE(made.ok()) << made.error().ToString();
    if (!made.ok()) break;
  }
  done = true;
  pruner.join();
}

TEST(MakeFolders, FileInTheWay) {
  const TempFolder folder;
  WriteText(folder / "file", "");
  ExpectErrorAt(MakeFolders(folder / "file"), Errc::kIo, "create the folder", folder / "file",
                std::nullopt);
  ExpectErrorAt(MakeFolders(folder / "file/b"), Errc::kIo, "create the folder", folder / "file/b",
                std::nullopt);
}

TEST(RemoveTree, LeavesWhatLinksLeadTo) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "a/b");
  std::filesystem::create_directory(folder / "other");
  WriteText(folder / "other/file", "");
  std::filesystem::create_directory_symlink(folder / "other", folder / "a/b/link");
  EXPECT_TRUE(RemoveContents(folder / "a").ok());
  EXPECT_TRUE(ListFolder(folder / "a")->empty());
  EXPECT_TRUE(RemoveTree(folder / "a").ok());
  EXPECT_FALSE(Exists(folder / "a"));
  EXPECT_TRUE(Exists(folder / "other/file"));
  EXPECT_TRUE(RemoveTree(folder / "a").ok());
}

}  // namespace
}  // namespace nxdkit
