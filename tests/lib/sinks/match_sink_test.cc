// MatchSink matches the output of WriteSink; one changed byte anywhere is a difference.
#include "lib/sinks/match_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/lib/expect_error.h"
#include "tests/lib/sinks/write_sink_fixture.h"

namespace nxdkit {
namespace {

using testing_util::ExpectError;
using testing_util::ReadText;
using testing_util::TempFolder;
using testing_util::WriteJob;

class MatchSinkTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto sink = job_.Begin(folder_.path(), "");
    ASSERT_TRUE(sink.ok());
    ASSERT_TRUE(job_.Run(**sink).ok());
    ASSERT_TRUE((*sink)->Finish().ok());
  }
  Status Match() const {
    NXDKIT_ASSIGN(const std::unique_ptr<MatchSink> sink,
                  MatchSink::Begin(folder_.path(), job_.layout(), job_.Files()));
    NXDKIT_TRY(job_.RunInto(*sink));
    return sink->Finish();
  }
  void Flip(const std::string& path, size_t at) const {
    std::string bytes = ReadText(path);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  const WriteJob job_{GetParam()};
  const TempFolder folder_;
};

TEST_P(MatchSinkTest, FindsWhatWasWritten) {
  const Status same = Match();
  EXPECT_TRUE(same.ok()) << same.error().ToString();
}

TEST_P(MatchSinkTest, FindsEveryByteThatDiffers) {
  for (const auto& [name, bytes] : job_.Expected()) {
    const std::string path = folder_.path() + "/" + name;
    for (size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 40) {
      Flip(path, at);
      const Status found = Match();
      ASSERT_FALSE(found.ok()) << name << " at " << at;
      EXPECT_EQ(found.error().code(), Errc::kFindings);
      EXPECT_EQ(found.error().file(), path);
      EXPECT_EQ(found.error().offset(), at);
      Flip(path, at);
    }
  }
}

TEST_P(MatchSinkTest, FindsAnotherSizeAndAMissingFile) {
  const std::string path = folder_.path() + "/sub/two.bin";
  std::filesystem::resize_file(path, 9);
  const Status shorter = Match();
  ExpectError(shorter, Errc::kFindings, "found 9 bytes, expected ");
  std::filesystem::remove(path);
  const Status gone = Match();
  ExpectError(gone, Errc::kFindings, "there is no such file");
  EXPECT_EQ(gone.error().file(), path);
}

INSTANTIATE_TEST_SUITE_P(Crc, MatchSinkTest, ::testing::Bool());

}  // namespace
}  // namespace nxdkit
