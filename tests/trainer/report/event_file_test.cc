#include "trainer/report/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tests/lib/temp_folder.h"

namespace nxdkit::trainer {
namespace {

using testing_util::ReadText;
using testing_util::TempFolder;

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

// CRC-32C of "123456789" is e3069283 (RFC 3720 names the polynomial); TFRecord rotates it right by
// 15 bits and adds a282ead8.
TEST(MaskedCrc32c, OfTheCheckValue) {
  const uint32_t crc = 0xe3069283u;
  EXPECT_EQ(MaskedCrc32c("123456789"), ((crc >> 15) | (crc << 17)) + 0xa282ead8u);
  EXPECT_EQ(MaskedCrc32c(""), 0xa282ead8u);
}

// The output of TensorBoard's own writer for the same events (see
// tests/interop/tensorboard_interop.py).
TEST(Events, HaveTheBytesOfProtocolBuffers) {
  EXPECT_EQ(Hex(VersionEvent(1.5)), "09000000000000f83f1a0d627261696e2e4576656e743a32");
  EXPECT_EQ(Hex(ScalarsEvent(1.5, 300, {{"a/b", 0.5}, {"c", -1}})),
            "09000000000000f83f"  // wall time
            "10ac02"              // step 300
            "2a16"                // summary
            "0a0a0a03612f62150000003f"
            "0a080a01631500"
            "0080bf");
  EXPECT_EQ(Hex(RestartEvent(1.5, 8)), "09000000000000f83f10083a020801");
  EXPECT_EQ(Hex(TextEvent(1.5, 1, "t", "hi")),
            "09000000000000f83f1001"
            "2a1d0a1b0a0174"
            "420c08071204120208014202"
            "6869"
            "4a080a060a0474657874");
}

TEST(EventFrame, IsLengthAndTwoChecks) {
  const std::string frame = EventFrame("abc");
  ASSERT_EQ(frame.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(Hex(frame.substr(0, 8)), "0300000000000000");
  EXPECT_EQ(frame.substr(12, 3), "abc");
}

TEST(EventFile, IsNeverOneThatIsThere) {
  const TempFolder folder;
  const Result<EventFile> first = EventFile::Create(folder / "runs", 0);
  const Result<EventFile> second = EventFile::Create(folder / "runs", 3);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->path(), second->path());
  EXPECT_THAT(first->path(), ::testing::HasSubstr("/events.out.tfevents."));
  EXPECT_GT(std::filesystem::file_size(second->path()), std::filesystem::file_size(first->path()))
      << "a resumed run tells readers what to forget";
}

TEST(EventFile, GrowsByFrames) {
  const TempFolder folder;
  Result<EventFile> file = EventFile::Create(folder.path(), 0);
  ASSERT_TRUE(file.ok());
  const size_t before = ReadText(file->path()).size();
  ASSERT_TRUE(file->WriteScalars(1, {{"x", std::nan("")}}).ok());
  ASSERT_TRUE(file->WriteText(1, "config", "text").ok());
  ASSERT_TRUE(file->Sync().ok());
  const size_t frames = EventFrame(ScalarsEvent(0, 1, {{"x", 0}})).size() +
                        EventFrame(TextEvent(0, 1, "config", "text")).size();
  EXPECT_EQ(ReadText(file->path()).size(), before + frames);
}

TEST(TensorboardFolder, ConfiguredOrNot) {
  EXPECT_EQ(TensorboardFolder("dir", "p", "e"), "dir/p/e");
  ::unsetenv("TENSORBOARD_DIR");
  EXPECT_EQ(TensorboardFolder("", "p", "e"), "tensorboard_log/p/e");
  ::setenv("TENSORBOARD_DIR", "t", 1);
  EXPECT_EQ(TensorboardFolder("", "p", "e"), "t/p/e");
  ::unsetenv("TENSORBOARD_DIR");
}

}  // namespace
}  // namespace nxdkit::trainer
