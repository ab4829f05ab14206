#include "lib/system/looker.h"

#include <filesystem>

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

using testing_util::ExpectErrorAt;
using testing_util::TempFolder;
using testing_util::WriteText;
using Names = std::vector<std::string>;

// A folder with a file, a folder, a link to each, and one to nothing.
class Looking : public ::testing::Test {
 protected:
  Looking() {
    WriteText(folder_ / "file", "four");
    std::filesystem::create_directory(folder_ / "sub");
    std::filesystem::create_symlink("file", folder_ / "link");
    std::filesystem::create_symlink("sub", folder_ / "door");
    std::filesystem::create_symlink("nowhere", folder_ / "broken");
  }
  void Clear() const {
    std::filesystem::remove_all(folder_ / "file");
    std::filesystem::remove_all(folder_ / "sub");
  }

  const TempFolder folder_;
  const Looker look_;
};

TEST_F(Looking, SaysWhatIsThereAsLookAtDoes) {
  for (const bool listed : {false, true}) {
    const Looker look;
    if (listed) {
      EXPECT_EQ(look.ListFolder(folder_.path())->size(), 5U);
    }
    for (const char* name : {"file", "sub", "link", "door", "none", "sub/none", "file/none",
                             "none/x", "sub/.", "sub/..", "sub/"}) {
      const std::string path = folder_ / name;
      EXPECT_EQ(*look.KindOf(path), *KindOf(path)) << name;
    }
    ExpectErrorAt(look.KindOf(folder_ / "broken"), Errc::kCorrupt, "leads to nothing",
                  folder_ / "broken", std::nullopt);
  }
}

TEST_F(Looking, AnswersFromTheListWhatIsInTheFolder) {
  EXPECT_FALSE(*look_.HasFile(folder_.path(), "none"));
  Clear();
  WriteText(folder_ / "none", "");
  EXPECT_TRUE(*look_.IsFile(folder_ / "file"));
  EXPECT_TRUE(*look_.IsFolder(folder_ / "sub"));
  EXPECT_FALSE(*look_.IsThere(folder_ / "none"));
  EXPECT_FALSE(*look_.IsThere(folder_ / "none/below"));
  EXPECT_EQ(*look_.ListFolder(folder_.path() + "/"),
            (Names{"broken", "door", "file", "link", "sub"}));
}

TEST_F(Looking, ListsNoFolderForOneQuestion) {
  EXPECT_TRUE(*look_.IsFile(folder_ / "file"));
  Clear();
  EXPECT_TRUE(*look_.IsFile(folder_ / "file"));
  EXPECT_FALSE(*look_.IsThere(folder_ / "sub"));
}

TEST_F(Looking, CopiesShareWhatTheyKnow) {
  const Looker copy = look_;
  EXPECT_TRUE(*copy.HasFile(folder_.path(), "file"));
  Clear();
  EXPECT_TRUE(*look_.IsFile(folder_ / "file"));
}

TEST_F(Looking, ListsNothingWhereThereIsNoFolder) {
  for (const char* name : {"none", "file", "file/none"}) {
    EXPECT_EQ(*look_.ListIfThere(folder_ / name), Names());
    EXPECT_FALSE(*look_.HasFile(folder_ / name, "x"));
    ExpectErrorAt(look_.ListFolder(folder_ / name), Errc::kNotFound, "open the folder",
                  folder_ / name, std::nullopt);
  }
  ExpectErrorAt(look_.ListIfThere(folder_ / "broken"), Errc::kCorrupt, "leads to nothing",
                folder_ / "broken", std::nullopt);
}

}  // namespace
}  // namespace nxdkit
