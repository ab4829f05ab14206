// --into by one client of a shared folder while another one reads: two FUSE mounts of one folder,
// each with its own caches of names and attributes, like NFS clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "tests/tools/convert_workshop.h"
#include "tests/tools/kill.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;

class IntoClients : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"server", "writer", "reader"}) fs::create_directory(workshop_ / name);
    for (const char* name : {"writer", "reader"}) {
      const ProcessResult mounted =
          RunProcess({"bash", "-c",
                      "bindfs -o attr_timeout=30,entry_timeout=30,negative_timeout=30 " +
                          workshop_ / "server" + " " + workshop_ / name});
      if (mounted.exit_code != 0) GTEST_SKIP() << "bindfs cannot mount here: " << mounted.err;
    }
    ExpectConverts("--from hf --to rollout --tp 2", first_, workshop_ / "writer/bundle");
  }
  void TearDown() override {
    for (const char* name : {"writer", "reader"})
      RunProcess({"bash", "-c", "umount -l " + workshop_ / name + " 2>/dev/null"});
  }

  static Words Refresh(const std::string& model, const std::string& bundle) {
    return {Workshop::Tool("nxd-convert"), "--no-sync", "--to", "rollout", "--into", model, bundle};
  }
  static std::string Digest(const std::string& path) {
    const ProcessResult result = RunProcess({Workshop::Tool("ckpt-digest"), path});
    return result.exit_code == 0 ? result.out.substr(0, result.out.find('\n')) : result.err;
  }

  const Workshop workshop_;
  const std::string first_ = workshop_.MakeModel("first", testing_util::TinyLlama(), "--seed 1");
  const std::string second_ = workshop_.MakeModel("second", testing_util::TinyLlama(), "--seed 2");
};

// The caches work: a client that has looked for a name in vain does not see it when the other
// creates it.
TEST_F(IntoClients, AreTwo) {
  ASSERT_FALSE(fs::exists(workshop_ / "reader/late"));
  fs::create_directory(workshop_ / "writer/late");
  ASSERT_TRUE(fs::exists(workshop_ / "server/late"));
  EXPECT_FALSE(fs::exists(workshop_ / "reader/late"));
}

TEST_F(IntoClients, AReaderSeesOneVersionWhole) {
  const std::string bundle = workshop_ / "reader/bundle";
  const Words versions = {Digest(first_), Digest(second_)};
  ASSERT_EQ(Digest(bundle), versions[0]);
  int reads = 0, news = 0;
  for (int i = 0; i < 12; ++i) {
    const pid_t writer =
        StartProcess(Refresh(i % 2 == 0 ? second_ : first_, workshop_ / "writer/bundle"));
    for (int read = 0; read < 4; ++read, ++reads) {
      const std::string seen = Digest(bundle);
      ASSERT_THAT(versions, ::testing::Contains(seen)) << "refresh " << i << ", read " << read;
      news += seen == versions[1];
    }
    ASSERT_EQ(WaitProcess(writer), 0) << "refresh " << i;
  }
  EXPECT_GT(news, 0) << "of " << reads << " reads";
  EXPECT_EQ(Digest(workshop_ / "writer/bundle"), versions[0]);
}

// They do not see each other's locks: both write a whole slot, and one of them is the last.
TEST_F(IntoClients, TwoWritersLeaveOneVersionWhole) {
  const Words versions = {Digest(first_), Digest(second_)};
  for (int i = 0; i < 6; ++i) {
    const pid_t one = StartProcess(Refresh(first_, workshop_ / "writer/bundle"));
    const pid_t two = StartProcess(Refresh(second_, workshop_ / "reader/bundle"));
    const int codes[] = {WaitProcess(one), WaitProcess(two)};
    EXPECT_TRUE(codes[0] == 0 || codes[1] == 0) << codes[0] << ", " << codes[1];
    ASSERT_THAT(versions, ::testing::Contains(Digest(workshop_ / "server/bundle")))
        << "round " << i;
  }
  ASSERT_EQ(RunProcess(Refresh(second_, workshop_ / "writer/bundle")).exit_code, 0);
  EXPECT_EQ(Digest(workshop_ / "server/bundle"), versions[1]);
}

}  // namespace
}  // namespace nxdkit::test
