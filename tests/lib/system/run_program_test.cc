// A program that is run for its output; faults of neuron-ls are in
// tests/formats/hardware/read_machine_test.cc.
#include "lib/system/run_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/stopwatch.h"
#include "tests/lib/expect_error.h"
#include "tests/lib/processes.h"

namespace nxdkit {
namespace {

using ::testing::HasSubstr;
using testing_util::ExpectError;

Result<std::string> OutputOfShell(const std::string& script, size_t max_bytes = 1 << 20) {
  return OutputOf({.program = "/bin/sh",
                   .words = {"sh", "-c", script},
                   .environment = {"PATH=/usr/bin:/bin", "SAID=so"},
                   .most = std::chrono::seconds(20),
                   .max_bytes = max_bytes});
}

TEST(OutputOf, IsAllThatItPrinted) {
  const auto text = OutputOfShell("cat; echo $SAID$HOME; printf '%0300000d' 1; echo noise >&2");
  ASSERT_TRUE(text.ok()) << text.error().ToString();
  EXPECT_EQ(text->size(), 3u + 300'000u) << "standard input is empty, and so is HOME";
  EXPECT_THAT(text->substr(0, 6), "so\n000");
}

TEST(OutputOf, MayHaveItsSizeAndNoMore) {
  EXPECT_TRUE(OutputOfShell("printf 12345", 5).ok());
  EXPECT_TRUE(ExpectError(OutputOfShell("printf 123456", 5), Errc::kLimit, "more than 5 bytes"));
  EXPECT_TRUE(ExpectError(OutputOfShell("yes", 1000), Errc::kLimit, "more than 1000 bytes"));
}

TEST(OutputOf, AFailureHasItsLastWords) {
  EXPECT_TRUE(ExpectError(OutputOfShell("echo why >&2; exit 3"), Errc::kIo,
                          "it exited with 3; its standard error: why"));
  EXPECT_TRUE(ExpectError(OutputOf({.program = "/no/such", .words = {"x"}, .environment = {}}),
                          Errc::kNotFound, ""));
}

// A process that holds the pipe after it is not waited for, and is ended.
TEST(OutputOf, DoesNotWaitForWhatItLeftRunning) {
  const Stopwatch watch;
  const auto text = OutputOfShell("sleep 1000 & echo $!");
  ASSERT_TRUE(text.ok()) << text.error().ToString();
  EXPECT_LT(watch.Seconds(), 15);
  EXPECT_TRUE(testing_util::Ends(static_cast<pid_t>(std::stol(*text)))) << *text;
}

}  // namespace
}  // namespace nxdkit
