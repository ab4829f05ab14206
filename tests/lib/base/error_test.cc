#include "lib/base/error.h"

#include <cerrno>

#include "lib/base/checked.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using testing_util::ExpectError;

TEST(Error, SaysEveryPlaceInOneLine) {
  const Error error = Error(Errc::kCorrupt, "found 3, expected 4")
                          .at(17)
                          .rank(2)
                          .on("w")
                          .member("data.pkl")
                          .in("a.pt");
  EXPECT_EQ(error.ToString(), "a.pt: data.pkl: w: rank 2: offset 17: found 3, expected 4");
}

TEST(Error, TheInnermostPlaceIsKept) {
  const Error error =
      Error(Errc::kIo, "x").in("inner").at(1).on("t").hint("h").in("outer").at(2).on("u").hint("i");
  EXPECT_EQ(error.file(), "inner");
  EXPECT_EQ(error.offset(), 1u);
  EXPECT_EQ(error.tensor(), "t");
  EXPECT_EQ(error.hint(), "h");
}

// As for a file with a tensor name of a megabyte, whatever the message.
TEST(Error, NamesOfAMegabyteAreCut) {
  const std::string name(1 << 20, 'n');
  const std::string path = "/" + std::string(4000, 'p');
  const Error error = Error(Errc::kCorrupt, "'" + name + "' is there twice, expected once")
                          .on(name)
                          .member(name)
                          .in(path)
                          .hint("remove " + name);
  const std::string cut = std::string(200, 'n') + "... (1048576 bytes)";
  EXPECT_EQ(error.tensor(), cut);
  EXPECT_EQ(error.member(), cut);
  EXPECT_EQ(error.hint(), "remove " + cut);
  EXPECT_EQ(error.file(), path) << "a path is there to be copied";
  EXPECT_EQ(error.message(),
            "'" + std::string(199, 'n') + "... (1048578 bytes) is there twice, expected once");
  EXPECT_LT(Error(Errc::kIo, "x").in(std::string(1 << 20, 'p')).ToString().size(), 300u);
}

TEST(Error, ExitCodesAreTheContract) {
  const std::pair<Errc, int> rows[] = {
      {Errc::kFindings, 1}, {Errc::kUsage, 2},         {Errc::kNotFound, 3},
      {Errc::kCorrupt, 3},  {Errc::kUnsupported, 4},   {Errc::kIo, 5},
      {Errc::kLimit, 6},    {Errc::kInterrupted, 130}, {Errc::kInternal, 70}};
  for (const auto& [code, exit_code] : rows) EXPECT_EQ(ExitCode(code), exit_code) << ErrcName(code);
}

TEST(SystemError, MapsErrno) {
  EXPECT_EQ(SystemError("open", ENOENT).code(), Errc::kNotFound);
  EXPECT_EQ(SystemError("open", ENOTDIR).code(), Errc::kNotFound);
  EXPECT_EQ(SystemError("open", EACCES).code(), Errc::kIo);
  EXPECT_EQ(SystemError("open", EACCES).message(), "cannot open: Permission denied");
  EXPECT_EQ(SystemError("write 4 bytes", EACCES).hint(), "");
  EXPECT_NE(SystemError("write 4 bytes", ENOSPC).hint(), "");
  EXPECT_EQ(OutputError("create", ENOENT).code(), Errc::kIo);  // exit 3 is for inputs
  EXPECT_EQ(OutputError("create", ENOENT).message(), "cannot create: No such file or directory");
  EXPECT_NE(OutputError("create", ENOSPC).hint(), "");
}

Result<int> Half(int n) {
  if (n % 2 != 0) return Error(Errc::kCorrupt, "odd");
  return n / 2;
}
Result<int> Quarter(int n) {
  NXDKIT_ASSIGN(const int half, Half(n));
  NXDKIT_TRY(Half(half));
  return Half(half);
}

TEST(Result, MacrosPassTheErrorOn) {
  ASSERT_TRUE(Quarter(8).ok());
  EXPECT_EQ(*Quarter(8), 2);
  ExpectError(Quarter(7), Errc::kCorrupt, "odd");
  ExpectError(Quarter(6), Errc::kCorrupt, "odd");
}

TEST(Checked, RefusesToWrap) {
  EXPECT_EQ(CheckedAdd<uint64_t>(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(CheckedAdd<uint64_t>(UINT64_MAX - 1, 1), UINT64_MAX);
  EXPECT_EQ(CheckedMul<int64_t>(INT64_MIN, -1), std::nullopt);
  EXPECT_EQ(CheckedMul<int64_t>(-3, 5), -15);
  EXPECT_EQ(CheckedCast<int64_t>(UINT64_MAX), std::nullopt);
  EXPECT_EQ(CheckedCast<uint8_t>(256), std::nullopt);
  EXPECT_EQ(CheckedCast<uint64_t>(int64_t{-1}), std::nullopt);
  EXPECT_EQ(CheckedCast<uint8_t>(255), 255);
}

}  // namespace
}  // namespace nxdkit
