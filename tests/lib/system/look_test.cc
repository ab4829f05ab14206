#include "lib/system/look.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

using testing_util::ExpectErrorAt;
using testing_util::TempFolder;
using testing_util::WriteText;

// A file, a folder, links to both, a link to nothing and one to itself.
class Looks : public ::testing::Test {
 protected:
  Looks() {
    WriteText(folder_ / "file", "four");
    std::filesystem::create_directory(folder_ / "sub");
    WriteText(folder_ / "sub/inner", "");
    std::filesystem::create_symlink("file", folder_ / "link");
    std::filesystem::create_symlink("sub", folder_ / "folder_link");
    std::filesystem::create_symlink("nowhere", folder_ / "dangling");
    std::filesystem::create_symlink("loop", folder_ / "loop");
  }
  std::string In(std::string_view name) const { return folder_ / name; }

  const TempFolder folder_;
};

TEST_F(Looks, KindOfFollowsLinks) {
  EXPECT_EQ(*KindOf(In("file")), PathKind::kFile);
  EXPECT_EQ(*KindOf(In("link")), PathKind::kFile);
  EXPECT_EQ(*KindOf(folder_.path()), PathKind::kFolder);
  EXPECT_EQ(*KindOf(In("folder_link")), PathKind::kFolder);
  EXPECT_EQ(*KindOf("/dev/null"), PathKind::kOther);
  EXPECT_TRUE(*IsThere(In("link")));
  EXPECT_TRUE(*IsFile(In("link")));
  EXPECT_FALSE(*IsFile(In("sub")));
  EXPECT_TRUE(*IsFolder(In("folder_link/")));
  EXPECT_TRUE(*HasFile(In("sub"), "inner"));
}

TEST_F(Looks, WhatIsNotThereIsMissing) {
  for (const char* name : {"no", "no/more", "no/", "file/below", "link/below", "folder_link/no"}) {
    EXPECT_EQ(*KindOf(In(name)), PathKind::kMissing) << name;
    EXPECT_EQ(LookAtLink(In(name))->kind, PathKind::kMissing) << name;
    EXPECT_FALSE(*IsThere(In(name))) << name;
    EXPECT_EQ(*ReadLink(In(name)), "") << name;
    EXPECT_EQ(*ListIfThere(In(name)), std::vector<std::string>()) << name;
  }
  EXPECT_EQ(*KindOf(""), PathKind::kMissing);
}

// stat(2) gives ENOENT for the first and for paths below it.
TEST_F(Looks, WhatCannotBeLookedAtIsAnError) {
  for (const char* name : {"dangling", "dangling/", "dangling/below", "dangling/below/it"}) {
    ExpectErrorAt(KindOf(In(name)), Errc::kCorrupt, "link that leads to nothing", In("dangling"),
                  std::nullopt);
    ExpectErrorAt(ListIfThere(In(name)), Errc::kCorrupt, "link that leads to nothing",
                  In("dangling"), std::nullopt);
  }
  ExpectErrorAt(KindOf(In("loop")), Errc::kCorrupt, "Too many levels", In("loop"), std::nullopt);
  ExpectErrorAt(ListIfThere(In("loop")), Errc::kCorrupt, "Too many levels", In("loop"),
                std::nullopt);
  const std::string name(300, 'n');
  ExpectErrorAt(IsFile(In(name)), Errc::kCorrupt, "File name too long", In(name), std::nullopt);
}

TEST_F(Looks, WithoutPermissionIsAnError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may look everywhere";
  ::chmod(In("sub").c_str(), 0);
  ExpectErrorAt(IsFile(In("sub/inner")), Errc::kIo, "Permission denied", In("sub/inner"),
                std::nullopt);
  ::chmod(In("sub").c_str(), 0700);
}

TEST_F(Looks, AtALinkItself) {
  EXPECT_EQ(LookAtLink(In("dangling"))->kind, PathKind::kLink);
  EXPECT_EQ(LookAtLink(In("loop"))->kind, PathKind::kLink);
  EXPECT_TRUE(*IsLink(In("folder_link")));
  EXPECT_FALSE(*IsLink(In("sub")));
  EXPECT_EQ(*ReadLink(In("dangling")), "nowhere");
  EXPECT_EQ(*ReadLink(In("file")), "");
  EXPECT_EQ(LookAt(In("link"))->bytes, 4u);
}

TEST_F(Looks, HintsTakeItForSomethingElse) {
  EXPECT_EQ(KindForHint(In("file")), PathKind::kFile);
  EXPECT_EQ(KindForHint(In("no")), PathKind::kMissing);
  EXPECT_EQ(KindForHint(In("dangling")), PathKind::kOther);
}

TEST_F(Looks, ListFolderIsSortedByBytes) {
  std::filesystem::remove(In("dangling"));
  for (const char* name : {"b", "a10", "a2", "Z", ".hidden", "\xc3\xa9"})
    WriteText(In("sub/") + name, "");
  EXPECT_EQ(*ListFolder(In("sub")),
            (std::vector<std::string>{".hidden", "Z", "a10", "a2", "b", "inner", "\xc3\xa9"}));
  ExpectErrorAt(ListFolder(In("no")), Errc::kNotFound, "open the folder", In("no"), std::nullopt);
  ExpectErrorAt(ListFolder(In("file")), Errc::kNotFound, "Not a directory", In("file"),
                std::nullopt);
}

TEST_F(Looks, ListTreeDoesNotFollowLinks) {
  std::string text;
  const auto entries = ListTree(folder_.path());
  ASSERT_TRUE(entries.ok());
  for (const TreeEntry& entry : *entries)
    text += entry.path + (entry.kind == PathKind::kLink     ? "@ "
                          : entry.kind == PathKind::kFolder ? "/ "
                                                            : " ");
  EXPECT_EQ(text, "dangling@ file folder_link@ link@ loop@ sub/ sub/inner ");
  EXPECT_TRUE(ListTree(In("no"))->empty());
}

}  // namespace
}  // namespace nxdkit
