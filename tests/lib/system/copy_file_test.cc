#include "lib/system/copy_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/formats/scratch.h"

namespace nxdkit {
namespace {

using testing_util::ReadBytes;
using testing_util::Scratch;

// A file may be replaced by a link between its listing and its copy.
TEST(Copies, OfAFileItselfFollowNoLink) {
  const Scratch scratch;
  const std::string secret = scratch.Write("secret", "secret");
  std::filesystem::create_symlink(secret, scratch.Path("link"));
  const Status copied = CopyFileItself(scratch.Path("link"), scratch.Path("copy"), false);
  ASSERT_FALSE(copied.ok());
  EXPECT_EQ(copied.error().code(), Errc::kUnsupported);
  EXPECT_EQ(copied.error().message(), "a symbolic link, expected a regular file");
  EXPECT_FALSE(std::filesystem::exists(scratch.Path("copy")));
  EXPECT_TRUE(CopyFileItself(secret, scratch.Path("copy"), false).ok());
  EXPECT_EQ(ReadBytes(scratch.Path("copy")), "secret");
}

}  // namespace
}  // namespace nxdkit
