#include "lib/system/file_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

// Descriptors of this process that lead into the folder.
int OpenIn(const std::string& folder) {
  int open = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const auto target = std::filesystem::read_symlink(entry.path(), ignored);
    open += target.string().starts_with(folder + "/") ? 1 : 0;
  }
  return open;
}

TEST(FileCache, ClosesTheOldestAndKeepsWhatIsHeld) {
  const testing_util::TempFolder folder;
  FileCache cache(FileCache::Mode::kWrite, 2);
  const auto held = cache.Get(folder / "0");
  ASSERT_TRUE(held.ok());
  for (int i = 1; i < 6; ++i) ASSERT_TRUE(cache.Get(folder / std::to_string(i)).ok());
  EXPECT_EQ(OpenIn(folder.path()), 2);
  const auto again = cache.Get(folder / "0");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->get(), held->get()) << "it was opened twice, and one close goes unseen";
  EXPECT_TRUE(cache.Close().ok());
  EXPECT_EQ(OpenIn(folder.path()), 0);
}

TEST(FileCache, HoldsMoreWhenAllAreHeld) {
  const testing_util::TempFolder folder;
  FileCache cache(FileCache::Mode::kWrite, 1);
  const auto first = cache.Get(folder / "0");
  const auto second = cache.Get(folder / "1");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE((*first)->is_open() && (*second)->is_open());
}

}  // namespace
}  // namespace nxdkit
