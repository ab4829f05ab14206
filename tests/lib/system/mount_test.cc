#include "lib/system/mount.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MountTest : public ::testing::Test {
 protected:
  Mount Of(const std::string& path) const { return MountIn(table_, path); }
  testing_util::TempFolder folder_;
  const std::string table_ = folder_ / "mountinfo";

  // As proc(5) and the vendors' mount helpers write them.
  void SetUp() override {
    const std::string at = std::filesystem::canonical(folder_.path()).string();
    std::filesystem::create_directories(folder_ / "fsx/with a space");
    std::filesystem::create_directories(folder_ / "efs");
    std::filesystem::create_directories(folder_ / "efsx");
    testing_util::WriteText(table_,
                            "22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
                            "40 22 0:50 / " +
                                at +
                                "/fsx rw,noatime shared:2 master:3 - lustre 10.0.0.5@tcp:/abc "
                                "rw,flock\n"
                                "41 40 0:51 / " +
                                at +
                                "/fsx/with\\040a\\040space rw - tmpfs none rw,size=8m\n"
                                "42 22 0:52 / " +
                                at +
                                "/efs rw,relatime - nfs4 fs-1.efs.eu-1.amazonaws.com:/ "
                                "rw,vers=4.1,hard\n");
  }
};

TEST_F(MountTest, IsTheInnermostAroundThePath) {
  EXPECT_EQ(Of("/nowhere/at/all").type, "ext4");
  EXPECT_EQ(Of(folder_ / "fsx").type, "lustre");
  EXPECT_EQ(Of(folder_ / "fsx/new/file").type, "lustre");
  EXPECT_EQ(Of(folder_ / "fsx/with a space/file").type, "tmpfs");
  EXPECT_EQ(Of(folder_ / "efsx").type, "ext4") << "efs is another folder";
  const Mount efs = Of(folder_ / "efs/x");
  EXPECT_EQ(efs.source, "fs-1.efs.eu-1.amazonaws.com:/");
  EXPECT_EQ(efs.options, "rw,relatime,rw,vers=4.1,hard");
  EXPECT_TRUE(efs.Has("vers=") && efs.Has("hard") && !efs.Has("har"));
}

TEST_F(MountTest, OfTwoAtOnePlaceTheLaterCounts) {
  testing_util::WriteText(table_, "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / / rw - xfs b rw\n");
  EXPECT_EQ(Of("/").type, "xfs");
}

TEST_F(MountTest, OfATableThatSaysNothingIsUnknownAndShared) {
  for (const char* text : {"", "a b c\n", "36 35 98:0 / /\n", "36 35 98:0 / / rw - ext4\n"}) {
    testing_util::WriteText(table_, text);
    EXPECT_EQ(Of("/").type, "") << text;
  }
  EXPECT_TRUE(IsShared(Of("/")));
}

TEST_F(MountTest, KnowsWhatNetworkFileSystemsLack) {
  EXPECT_THAT(Lacks(Of(folder_ / "efs")), Contains(HasSubstr("a minute late")));
  EXPECT_THAT(Lacks(Of(folder_ / "fsx")), ElementsAre("exchange of two names"));
  EXPECT_THAT(Lacks({"lustre", "", "", "rw,localflock"}),
              Contains(HasSubstr("mounted localflock")));
  EXPECT_THAT(Lacks({"lustre", "", "", "rw"}), Contains(HasSubstr("mount it flock")));
  EXPECT_THAT(Lacks({"ext4", "", "", "rw"}), IsEmpty());
  for (const char* type : {"lustre", "nfs4", "nfs", "fuse.bindfs", "cifs", "9p", "ceph", ""})
    EXPECT_TRUE(IsShared({type, "", "", ""})) << type;
  for (const char* type : {"ext4", "xfs", "tmpfs", "overlay", "btrfs"})
    EXPECT_FALSE(IsShared({type, "", "", ""})) << type;
}

TEST(Mount, OfThisMachineIsKnown) { EXPECT_NE(MountOf(".").type, ""); }

}  // namespace
}  // namespace nxdkit
