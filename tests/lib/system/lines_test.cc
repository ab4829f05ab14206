#include "lib/system/lines.h"

#include <string>
#include <tuple>
#include <vector>

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

using Line = std::tuple<std::string, uint64_t, bool>;

class LinesTest : public ::testing::Test {
 protected:
  Status Read(std::string_view text, uint64_t max_bytes = 100) {
    testing_util::WriteText(path_, text);
    lines_.clear();
    NXDKIT_ASSIGN(const File file, File::OpenRead(path_));
    return ForEachLine(file, max_bytes, [&](std::string_view line, uint64_t number, bool whole) {
      lines_.emplace_back(line, number, whole);
      return line == "stop" ? Status(Error(Errc::kFindings, "stopped")) : OkStatus();
    });
  }
  testing_util::TempFolder folder_;
  const std::string path_ = folder_ / "lines";
  std::vector<Line> lines_;
};

TEST_F(LinesTest, WithAndWithoutALastLineFeed) {
  ASSERT_TRUE(Read("").ok());
  EXPECT_EQ(lines_, std::vector<Line>());
  ASSERT_TRUE(Read("a\n\nb\r\n").ok());
  EXPECT_EQ(lines_, (std::vector<Line>{{"a", 1, true}, {"", 2, true}, {"b\r", 3, true}}));
  ASSERT_TRUE(Read("\nc").ok());
  EXPECT_EQ(lines_, (std::vector<Line>{{"", 1, true}, {"c", 2, false}}));
}

TEST_F(LinesTest, LongerThanABlock) {
  std::string text;
  for (int i = 0; i < 9; ++i) text += std::string(300'000, static_cast<char>('a' + i)) + "\n";
  ASSERT_TRUE(Read(text, 300'000).ok());
  ASSERT_EQ(lines_.size(), 9u);
  EXPECT_TRUE(lines_[8] == Line(std::string(300'000, 'i'), 9, true));
}

TEST_F(LinesTest, TooLong) {
  testing_util::ExpectError(Read("a\n" + std::string(101, 'b')), Errc::kLimit,
                            "line 2: it is over the limit of 100 bytes");
  EXPECT_TRUE(Read("a\n" + std::string(100, 'b')).ok());
}

TEST_F(LinesTest, StopsAtAnError) {
  testing_util::ExpectError(Read("a\nstop\nb\n"), Errc::kFindings, "stopped");
  EXPECT_EQ(lines_.size(), 2u);
}

}  // namespace
}  // namespace nxdkit
