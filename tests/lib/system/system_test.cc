#include "lib/system/system.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

constexpr char kMemInfo[] = "MemTotal:       1000 kB\nMemFree:         10 kB\n";

class MemoryLimit : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) const {
    const std::string whole = root_ / path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    testing_util::WriteText(whole, text);
  }
  std::optional<uint64_t> Limit() const { return MemoryLimitBytes(root_.path()); }
  const testing_util::TempFolder root_;
};

TEST_F(MemoryLimit, IsTheMachinesWithoutGroups) {
  EXPECT_EQ(Limit(), std::nullopt);
  Write("proc/meminfo", kMemInfo);
  EXPECT_EQ(Limit(), 1024'000u);
}

TEST_F(MemoryLimit, IsTheLeastOfTheGroupsThatItLiesIn) {
  Write("proc/meminfo", kMemInfo);
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(Limit(), 1024'000u);
  Write("sys/fs/cgroup/a/memory.max", "5000\n");
  EXPECT_EQ(Limit(), 5000u);
  Write("sys/fs/cgroup/memory.max", "3000\n");  // a container's own root
  EXPECT_EQ(Limit(), 3000u);
  Write("sys/fs/cgroup/a/b/memory.max", "9223372036854771712\n");
  EXPECT_EQ(Limit(), 3000u);
}

TEST_F(MemoryLimit, KnowsVersion1) {
  Write("proc/meminfo", kMemInfo);
  Write("proc/self/cgroup", "9:name=memory:/x\n4:cpu,memory:/x\n0::/\n");
  Write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "7000\n");
  EXPECT_EQ(Limit(), 7000u);
  Write("proc/self/cgroup", "4:cpu:/x\nnonsense\n");
  EXPECT_EQ(Limit(), 1024'000u);
}

TEST(MemoryLimitBytes, IsMoreThanThisProcessHolds) {
  ASSERT_TRUE(MemoryLimitBytes().has_value());
  EXPECT_GT(*MemoryLimitBytes(), RssBytes());
}

// Holes between live blocks, as a parser leaves them.
TEST(ReturnFreeMemory, GivesBackHoles) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has its own allocator";
#endif
  std::vector<std::unique_ptr<std::string>> texts;
  for (int i = 0; i < 20'000; ++i) texts.push_back(std::make_unique<std::string>(2000, 'x'));
  const uint64_t full = RssBytes();
  for (size_t i = 0; i < texts.size(); ++i)
    if (i % 100 != 0) texts[i].reset();
  ReturnFreeMemory();
  EXPECT_LT(RssBytes() + (20 << 20), full);
}

}  // namespace
}  // namespace nxdkit
